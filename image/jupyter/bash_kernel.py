"""A Jupyter kernel for Bash: one bash that stays, fed over pipes.

The usual one drives bash through a terminal and looks for its prompt in what
comes, which costs tenths of a second a cell and mixes the two outputs. Here
bash takes each cell from a file, and tells on a pipe of its own when it has
ended and how.
"""
import asyncio
import codecs
import contextlib
import os
import signal
import subprocess
import sys
import tempfile

import quick
from ipykernel.kernelbase import Kernel
from traitlets.config import Config

REPLY = 199  # bash's descriptor for answers

# What bash is told for a cell. It is interactive, so that an interrupt ends
# the whole cell and not only the command that runs; it then goes on with the
# second line, which answers.
ORDER = "{ eval \"$(<%s)\"; } </dev/null 199>&-\nprintf '%%d\\n' $? >&199\n"


class BashKernel(Kernel):
    implementation = "glovebox-bash"
    implementation_version = "1"
    language = "bash"
    banner = "Bash"
    language_info = {
        "name": "bash",
        "mimetype": "text/x-sh",
        "file_extension": ".sh",
        "codemirror_mode": "shell",
    }

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.process = None
        fd, self.file = tempfile.mkstemp(prefix="cell-", suffix=".sh")
        os.close(fd)

    def begin(self):
        out, err, reply, control = os.pipe(), os.pipe(), os.pipe(), os.pipe()

        def descriptors():
            os.dup2(reply[1], REPLY)
            os.setpgid(0, 0)
            signal.signal(signal.SIGINT, signal.SIG_DFL)

        env = dict(
            os.environ, TERM="dumb", PAGER="cat", GIT_PAGER="cat", GIT_TERMINAL_PROMPT="0",
            PS1="", PS2="", HISTFILE="",
            # As for the commands of tools: what the project has installed comes first.
            PATH="/workspace/.venv/bin:/workspace/node_modules/.bin:" + os.environ.get("PATH", os.defpath),
        )
        self.process = subprocess.Popen(
            ["bash", "--noprofile", "--norc", "--noediting", "-i", "+m", "+H"],
            stdin=control[0], stdout=out[1], stderr=err[1],
            close_fds=False, preexec_fn=descriptors, env=env,
        )
        for fd in (out[1], err[1], reply[1], control[0]):
            os.close(fd)
        self.out, self.err, self.reply, self.control = out[0], err[0], reply[0], control[1]
        for fd in (self.out, self.err, self.reply):
            os.set_blocking(fd, False)
        self.decoders = {}
        for fd, name in ((self.out, "stdout"), (self.err, "stderr")):
            self.decoders[fd] = (name, codecs.getincrementaldecoder("utf-8")("replace"))

    def end(self):
        for fd in (self.out, self.err, self.reply, self.control):
            with contextlib.suppress(OSError):
                os.close(fd)
        self.process.wait()
        self.process = None

    def pump(self, fd):
        """Passes on what there is; False at the end."""
        name, decoder = self.decoders[fd]
        try:
            data = os.read(fd, 65536)
        except BlockingIOError:
            return None
        text = decoder.decode(data)
        if text and not self.silent:
            self.send_response(self.iopub_socket, "stream", {"name": name, "text": text})
        return bool(data)

    async def do_execute(self, code, silent, store_history=True, user_expressions=None, allow_stdin=False, **_):
        if self.process is None:
            self.begin()
            # An empty cell first: bash complains that it has no terminal.
            self.silent = True
            await self.feed("")
        self.silent = silent
        status = await self.feed(code)
        if status is None:
            self.process.poll()
            said = "bash has ended: the next cell starts a new one, with nothing of its state"
            self.end()
            return self.failed("Exit", said, silent)
        if status == 130:
            return self.failed("KeyboardInterrupt", "", silent)
        if status:
            return self.failed("Status", str(status), silent)
        return {"status": "ok", "execution_count": self.execution_count, "payload": [], "user_expressions": {}}

    async def feed(self, code):
        with open(self.file, "w", encoding="utf-8", errors="surrogateescape") as f:
            f.write(code)
        status = await self.run()
        # What was written before the answer is in the pipes already.
        for fd in (self.out, self.err):
            while self.pump(fd):
                pass
        return status

    def failed(self, name, value, silent):
        error = {"ename": name, "evalue": value, "traceback": []}
        if not silent:
            self.send_response(self.iopub_socket, "error", error)
        return {"status": "error", "execution_count": self.execution_count, **error}

    async def run(self):
        """Runs the cell and returns its status; None if bash has ended."""
        loop = asyncio.get_running_loop()
        done = loop.create_future()
        answer = b""

        def replied():
            nonlocal answer
            try:
                data = os.read(self.reply, 64)
            except BlockingIOError:
                return
            answer += data
            if not data or answer.endswith(b"\n"):
                loop.remove_reader(self.reply)
                if not done.done():
                    done.set_result(int(answer) if data else None)

        def readable(fd):
            if self.pump(fd) is False:
                loop.remove_reader(fd)

        def interrupted():
            with contextlib.suppress(OSError):
                os.killpg(self.process.pid, signal.SIGINT)

        loop.add_reader(self.reply, replied)
        for fd in (self.out, self.err):
            loop.add_reader(fd, readable, fd)
        loop.add_signal_handler(signal.SIGINT, interrupted)
        try:
            os.write(self.control, (ORDER % self.file).encode())
            return await done
        except BrokenPipeError:
            return None
        finally:
            loop.remove_signal_handler(signal.SIGINT)
            for fd in (self.reply, self.out, self.err):
                loop.remove_reader(fd)

    async def do_shutdown(self, restart):
        if self.process is not None:
            with contextlib.suppress(OSError):
                os.killpg(self.process.pid, signal.SIGKILL)
        with contextlib.suppress(OSError):
            os.unlink(self.file)
        return {"status": "ok", "restart": restart}


if __name__ == "__main__":
    sys.modules["debugpy"] = None  # it takes memory, and nobody debugs here
    quick.App.launch_instance(kernel_class=BashKernel, config=quick.prepare(Config()))
