"""Failed syncs and unreadable pages of the journal: SyncNote, and functions for both."""

from libcpp.string cimport string

from relay._native.base cimport encoded
from relay._native.failure cimport raise_failure

cdef extern from "journal/journal_writer.hpp" namespace "relay":
    void c_settle_syncs "relay::settle_syncs"(string directory) except +raise_failure

cdef extern from "journal/unreadable.hpp" namespace "relay":
    void c_watch_pages "relay::watch_pages"()
    void c_forget_unreadable "relay::forget_unreadable"()

cdef extern from "journal/sync_note.hpp" namespace "relay":
    cdef enum class CTrust "relay::SyncNote::Trust":
        all
        unknown
        none

    cdef cppclass CSyncNote "relay::SyncNote":
        CSyncNote(string file) except +raise_failure
        CTrust trust()
        void begin()
        void end()
        void fail()
        void settle()
        @staticmethod
        CTrust of(string file)
        @staticmethod
        string of_journal(string directory)


def sync_failed(directory):
    """Whether a sync of the journal in the folder has failed since the host started.

    The next writer removes everything after the last successful sync. No reader may be beyond that then.
    """
    return CSyncNote.of(CSyncNote.of_journal(encoded(str(directory)))) == CTrust.none


def sync_unknown(directory):
    """Whether a writer died during a sync of the journal in the folder.

    The next writer writes the data of that sync again. Nobody may read it meanwhile.
    """
    return CSyncNote.of(CSyncNote.of_journal(encoded(str(directory)))) == CTrust.unknown


def settle_syncs(directory):
    """Writes the data of an interrupted sync again, if a writer died during one. Raises JournalError."""
    c_settle_syncs(encoded(str(directory)))


cdef class SyncNote:
    """A file that records whether syncs have succeeded since the host started; created if it is missing.

    Raises JournalError.
    """

    cdef CSyncNote* c

    def __cinit__(self, file):
        self.c = new CSyncNote(encoded(str(file)))

    def __dealloc__(self):
        del self.c

    @property
    def failed(self):
        """Whether a sync failed."""
        return self.c.trust() == CTrust.none

    @property
    def unknown(self):
        """Whether a sync is running, or was running when its process died."""
        return self.c.trust() == CTrust.unknown

    def begin(self):
        """Records that a sync begins."""
        self.c.begin()

    def end(self):
        """Records that the sync succeeded."""
        self.c.end()

    def fail(self):
        """Records that a sync failed, or is not reliable."""
        self.c.fail()

    def settle(self):
        """Records that everything is synced."""
        self.c.settle()


def watch_pages():
    """Lets this process and its later forks record the segment when they die of an unreadable journal page (SIGBUS).

    Opening a recorded segment fails with `journal_corrupt`.
    """
    c_watch_pages()


def forget_unreadable():
    """Allows unreadable segments to be opened again."""
    c_forget_unreadable()


