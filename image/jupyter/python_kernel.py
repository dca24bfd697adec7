"""The Python kernel of the machine: ipykernel, set up for it."""
import os
import sys

import quick
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
    return quick.prepare(c)


def main():
    os.environ.setdefault("COLUMNS", "120")
    # The current directory comes first, as with the plain launcher.
    if sys.path and os.path.dirname(os.path.abspath(__file__)) == sys.path[0]:
        sys.path[0] = ""
    # The debugger's library takes a sixth of the memory and much of the start, and
    # nobody debugs here through the kernel. Cells may import it all the same.
    sys.modules["debugpy"] = None
    app = quick.App.instance(config=config())
    app.initialize()
    del sys.modules["debugpy"]
    app.shell.events.register("pre_run_cell", heed_venv)
    app.start()


if __name__ == "__main__":
    main()
