"""A certificate authority of the test's own, and files of what it signs."""

import datetime
import shutil

import trustme

from forerun.rpc.certificates import TlsFiles

HOUR = datetime.timedelta(hours=1)


class Authority:
    """Signs certificates into files of `folder`; another Authority is a stranger to it."""

    def __init__(self, folder, name="ca"):
        self._ca, self._folder = trustme.CA(), folder
        self.path = str(folder / f"{name}.pem")
        self._ca.cert_pem.write_to_path(self.path)
        self.pem = self._ca.cert_pem.bytes()

    def files(self, name, trusts=None, expires_in=HOUR, stem=None):
        """cert, key and CA files for `name`; `stem` tells files of one name apart."""
        not_after = datetime.datetime.now(datetime.UTC) + expires_in
        not_before = not_after - 2 * HOUR
        issued = self._ca.issue_cert(name, not_after=not_after, not_before=not_before)
        cert, key = (str(self._folder / f"{stem or name}-{part}.pem") for part in ("cert", "key"))
        issued.private_key_pem.write_to_path(key)
        chain = b"".join(blob.bytes() for blob in issued.cert_chain_pems)
        with open(cert, "wb") as file:
            file.write(chain)
        return TlsFiles(cert, key, (trusts or self).path)


def replace(files, by):
    """Has the files hold what others hold, as a renewal does."""
    for path, other in ((files.key, by.key), (files.cert, by.cert)):
        shutil.copyfile(other, path)


def flags(files, prefix="--tls-"):
    """The flags that name them."""
    ca = (f"{prefix}ca", files.ca) if files.ca and prefix == "--tls-" else ()
    return (f"{prefix}cert", files.cert, f"{prefix}key", files.key, *ca)
