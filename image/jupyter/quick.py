"""ipykernel with fewer threads between a cell and its answer.

Of the time of a small cell most goes into handing messages from one thread to
the next, which is dear in a sandbox whose kernel is a program: a message that
is published wakes another thread, flushing the output waits for that twice,
and each request passes through a thread of its own. Here whoever publishes
sends by himself, under a lock.
"""
import os
import threading

from ipykernel import kernelapp
from ipykernel.iostream import IOPubThread, OutStream


class Publisher(IOPubThread):
    """Sends in the thread that publishes. A socket may be used by any thread,
    one at a time."""

    def __init__(self, *args, **kwargs):
        self.lock = threading.RLock()
        # A fork may happen while another thread holds it.
        os.register_at_fork(after_in_child=self.renew_lock)
        super().__init__(*args, **kwargs)

    def renew_lock(self):
        self.lock = threading.RLock()

    def _setup_xpub_listener(self):
        """The socket is not read, since that would happen in another thread:
        nobody is welcomed, as was usual before that was invented."""

    def send_multipart(self, *args, **kwargs):
        with self.lock:
            self._really_send(*args, **kwargs)


class Stream(OutStream):
    """Is flushed in the thread that asks for it."""

    def flush(self):
        self._flush()

    def _flush(self):
        with self.pub_thread.lock:
            super()._flush()


class App(kernelapp.IPKernelApp):
    """ipykernel without subshells: nothing here runs two cells of one kernel at
    a time."""

    def init_control(self, context):
        super().init_control(context)
        self.shell_channel_thread = None


def prepare(c):
    """Sets the configuration c, and ipykernel itself, to what is above."""
    kernelapp.IOPubThread = Publisher
    c.IPKernelApp.outstream_class = f"{__name__}.Stream"
    c.Kernel._execute_sleep = 0.0  # for output to be sent, which it is already
    return c
