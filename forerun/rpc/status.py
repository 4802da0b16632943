"""Errors of forerun.errors ⇄ gRPC status codes, Fault messages and rich status details."""

from typing import NoReturn

import grpc
from google.protobuf import any_pb2
from google.rpc import error_details_pb2, status_pb2
from grpc_status import rpc_status

from forerun import errors
from forerun.v1 import common_pb2

MAX_TOLD = 300  # characters of what a peer says that are taken into our own errors and logs

# The most derived class comes first: the first that fits an error is its code.
_CODES: tuple[tuple[type[Exception], grpc.StatusCode], ...] = (
    (errors.UnknownModel, grpc.StatusCode.NOT_FOUND),
    (errors.InvalidRequest, grpc.StatusCode.INVALID_ARGUMENT),
    (errors.Unauthenticated, grpc.StatusCode.UNAUTHENTICATED),
    (errors.ConfigError, grpc.StatusCode.FAILED_PRECONDITION),
    (errors.SequenceFault, grpc.StatusCode.ABORTED),
    (errors.Overloaded, grpc.StatusCode.RESOURCE_EXHAUSTED),
    (errors.DeadlineExceeded, grpc.StatusCode.DEADLINE_EXCEEDED),
    (errors.ServiceUnavailable, grpc.StatusCode.UNAVAILABLE),
)
_ERRORS: dict[int, type[errors.ForerunError]] = {
    grpc.StatusCode.NOT_FOUND.value[0]: errors.UnknownModel,
    grpc.StatusCode.INVALID_ARGUMENT.value[0]: errors.InvalidRequest,
    grpc.StatusCode.OUT_OF_RANGE.value[0]: errors.InvalidRequest,
    grpc.StatusCode.FAILED_PRECONDITION.value[0]: errors.ConfigError,
    grpc.StatusCode.ABORTED.value[0]: errors.SequenceFault,
    grpc.StatusCode.RESOURCE_EXHAUSTED.value[0]: errors.Overloaded,
    grpc.StatusCode.DEADLINE_EXCEEDED.value[0]: errors.DeadlineExceeded,
}


def code_of(error: BaseException) -> grpc.StatusCode:
    """The status code of `error`; INTERNAL for what nobody raised on purpose."""
    return next((code for kind, code in _CODES if isinstance(error, kind)), grpc.StatusCode.INTERNAL)


def error_of(code: int, message: str) -> errors.ForerunError:
    """The error that a peer meant by `code`; ServiceUnavailable where it is none of ours."""
    return _ERRORS.get(code, errors.ServiceUnavailable)(message)


def fault_of(error: BaseException) -> common_pb2.Fault:
    """The last message of a stream that `error` ends."""
    return common_pb2.Fault(code=code_of(error).value[0], message=_sentence(error))


def error_of_fault(fault: common_pb2.Fault) -> errors.ForerunError:
    """The error that a Fault stands for."""
    return error_of(fault.code, fault.message[:MAX_TOLD])


def error_of_rpc(error: grpc.RpcError, peer: str) -> errors.ForerunError:
    """The error that a failed call to `peer` stands for."""
    code = error.code() if hasattr(error, "code") else None
    number = code.value[0] if isinstance(code, grpc.StatusCode) else grpc.StatusCode.UNKNOWN.value[0]
    details = error.details() if hasattr(error, "details") else str(error)
    return error_of(number, f"{peer}: {str(details or code)[:MAX_TOLD]}")


async def abort(context: "grpc.aio.ServicerContext[object, object]", error: BaseException) -> NoReturn:
    """Ends a call with the status of `error`, naming the offending field as google.rpc.BadRequest."""
    rich = rpc_status.to_status(_rich_status(error))
    await context.abort(rich.code, rich.details, rich.trailing_metadata or ())
    raise AssertionError("abort always raises")


def _rich_status(error: BaseException) -> status_pb2.Status:
    status = status_pb2.Status(code=code_of(error).value[0], message=_sentence(error))
    if isinstance(error, errors.InvalidRequest) and error.param:
        violation = error_details_pb2.BadRequest.FieldViolation(field=error.param, description=str(error))
        packed = any_pb2.Any()
        packed.Pack(error_details_pb2.BadRequest(field_violations=[violation]))
        status.details.append(packed)
    return status


def _sentence(error: BaseException) -> str:
    """Only errors raised on purpose speak to the other side; the rest may quote anything."""
    return str(error) if isinstance(error, errors.ForerunError) else f"internal error ({type(error).__name__})"
