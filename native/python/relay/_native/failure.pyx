"""C++ exceptions of the core as Python exceptions."""

from libcpp.string cimport string

from relay.base.errors import ErrorCode, RelayError, StopCode

cdef extern from "base/failure.hpp" namespace "relay":
    cdef cppclass CFailure "relay::Failure":
        string code
        string operation
        string where
        string cause
        string hint
    CFailure current_failure()


class JournalError(RelayError):
    """A failure of the journal: `code` is one of disk_full, journal_lost, journal_corrupt, unexpected."""


cdef int raise_failure() except *:
    cdef CFailure failure = current_failure()
    code, operation, where, cause, hint = (
        part.decode("utf-8", "replace")
        for part in (failure.code, failure.operation, failure.where, failure.cause, failure.hint)
    )
    if not code:
        raise RuntimeError(cause)
    known = StopCode(code) if code in StopCode.__members__.values() else ErrorCode(code)
    kind = RelayError if where else JournalError
    raise kind(known, operation, cause, position=where, hint=hint)


class QueueError(RelayError):
    """A client's queue cannot be made, enlarged or read."""

    def __init__(self, cause):
        super().__init__(ErrorCode.ENVIRONMENT, "client queue", cause, hint="see MaxClients and QueueMemory in [Relay]")


cdef int raise_queue_failure() except *:
    cdef CFailure failure = current_failure()
    if failure.code.empty():
        raise QueueError(failure.cause.decode("utf-8", "replace"))
    return raise_failure()

