"""From certificates to what gRPC takes."""

import grpc

from forerun.rpc.certificates import Certificates, Pems


def server_credentials(certificates: Certificates) -> grpc.ServerCredentials:
    """Every new connection is shown the newest certificate; with a CA the client has to show one of that CA's."""
    shown = certificates.current()

    def newest() -> grpc.ServerCertificateConfiguration | None:
        nonlocal shown
        pems = certificates.current()
        if pems is shown:
            return None
        shown = pems
        return _configuration(pems)

    return grpc.dynamic_ssl_server_credentials(
        _configuration(shown),
        newest,  # type: ignore[arg-type]
        require_client_authentication=bool(shown.ca),
    )


def channel_credentials(pems: Pems) -> grpc.ChannelCredentials:
    """Trusts servers of this CA alone, and shows them this certificate."""
    return grpc.ssl_channel_credentials(pems.ca, pems.key, pems.cert)


def _configuration(pems: Pems) -> grpc.ServerCertificateConfiguration:
    return grpc.ssl_server_certificate_configuration([(pems.key, pems.cert)], pems.ca or None)
