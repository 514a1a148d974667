"""The scheduling policy of the calling thread.

These functions call the kernel. The C library musl has functions for this too, but those always fail.
"""

import os

from libc.errno cimport errno

cdef extern from *:
    """
    #include <sched.h>
    #include <sys/syscall.h>
    #include <unistd.h>

    static int relay_scheduling_policy() { return static_cast<int>(syscall(SYS_sched_getscheduler, 0)); }

    static int relay_set_scheduling_policy(int policy) {
      const sched_param no_priority = {};
      return static_cast<int>(syscall(SYS_sched_setscheduler, 0, policy, &no_priority));
    }
    """
    int c_scheduling_policy "relay_scheduling_policy"()
    int c_set_scheduling_policy "relay_set_scheduling_policy"(int policy)


def scheduling_policy():
    """The policy: one of os.SCHED_*."""
    return c_scheduling_policy()


def set_scheduling_policy(int policy):
    """Sets a policy without priorities: one of os.SCHED_OTHER, SCHED_BATCH and SCHED_IDLE. Raises OSError."""
    if c_set_scheduling_policy(policy) != 0:
        raise OSError(errno, os.strerror(errno))
