"""The Python kernel of the machine: ipykernel, set up for it."""
import os
import sys

from ipykernel.kernelapp import IPKernelApp
from traitlets.config import Config

VENV = "/workspace/.venv"
SITE = f"{VENV}/lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"


def heed_venv(*_):
    """Lets cells import what was installed into the project's environment,
    also after the kernel was started."""
    if SITE not in sys.path and os.path.isdir(SITE):
        import importlib
        import site

        site.addsitedir(SITE)  # behind the kernel's own, which it needs itself
        importlib.invalidate_caches()


class App(IPKernelApp):
    """ipykernel without subshells: nothing here runs two cells of one kernel at
    a time, and a thread less for each message to pass through saves a quarter
    of the time of a small cell."""

    def init_control(self, context):
        super().init_control(context)
        self.shell_channel_thread = None


def config():
    c = Config()
    # The notebook is the history. Without a database a cell costs a thread's
    # wake-up less.
    c.HistoryManager.enabled = False
    c.IPKernelApp.matplotlib = None
    c.InteractiveShellApp.exec_lines = []
    c.InlineBackend.figure_formats = {"png"}
    c.InlineBackend.rc = {"figure.dpi": 100}
    c.InteractiveShell.banner1 = ""
    c.InteractiveShell.colors = "nocolor"
    c.InteractiveShell.xmode = "Context"
    return c


def main():
    os.environ.setdefault("COLUMNS", "120")
    # The current directory comes first, as with the plain launcher.
    if sys.path and os.path.dirname(os.path.abspath(__file__)) == sys.path[0]:
        sys.path[0] = ""
    app = App.instance(config=config())
    app.initialize()
    app.shell.events.register("pre_run_cell", heed_venv)
    app.start()


if __name__ == "__main__":
    main()
