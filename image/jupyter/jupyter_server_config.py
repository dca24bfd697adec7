# JupyterLab in the machine: on a unix socket only, for the host's proxy.
import hashlib
import hmac
import json
import os

from jupyter_server.auth.identity import IdentityProvider
from jupyter_server.services.sessions.sessionmanager import SessionManager

RUN = os.environ.get("GLOVEBOX_RUN", "/run/glovebox")
WORKSPACE = os.environ.get("GLOVEBOX_WORKSPACE", "/workspace")
SECRET = RUN + "/secrets/jupyter"


class FileToken(IdentityProvider):
    """Reads the token from a file at each request. The server may have been
    frozen and copied since it was started; the file is the copy's own. A cookie
    is worth what the token was with which it was got: with another token it is
    none, so that copies that sign cookies alike do not take each other's."""

    @property
    def token(self):
        try:
            with open(SECRET, encoding="ascii") as f:
                return f.read(256).strip() or self.none
        except OSError:
            return self.none

    # No secret, nobody enters: an empty token would let everyone in.
    none = os.urandom(32).hex()

    @property
    def auth_enabled(self):
        return True

    def get_token(self, handler):
        given = super().get_token(handler) or ""
        # Compared in constant time, here since the base class does not.
        return self.token if hmac.compare_digest(given.encode(), self.token.encode()) else None

    def process_login_form(self, handler):
        given = handler.get_argument("password", default="")
        if hmac.compare_digest(given.encode(), self.token.encode()):
            return self.generate_anonymous_user(handler)
        return None

    def stamp(self):
        return hmac.new(self.token.encode(), b"jupyter cookie", hashlib.sha256).hexdigest()

    def user_to_cookie(self, user):
        return json.dumps({"user": super().user_to_cookie(user), "stamp": self.stamp()})

    def user_from_cookie(self, cookie_value):
        try:
            cookie = json.loads(cookie_value)
            if not hmac.compare_digest(cookie["stamp"], self.stamp()):
                return None
            return super().user_from_cookie(cookie["user"])
        except (KeyError, TypeError, ValueError):
            return None


class Sessions(SessionManager):
    """Opens the agent's notebook with the kernel that it runs in, if that
    lives, instead of a new one."""

    async def start_kernel_for_session(self, session_id, path, name, type, kernel_name, **kwargs):
        if path and path.startswith("notebooks/session") and path.endswith(".ipynb"):
            m = self.kernel_manager
            m.list_kernel_ids()  # looks for what runs now
            for kernel_id, file in getattr(m, "kernel_id_to_connection_file", {}).items():
                try:
                    about = json.loads(file.read_text())
                except (OSError, ValueError):
                    continue
                if about.get("glovebox_name") == "python" and about.get("kernel_name") == (kernel_name or "python3"):
                    return kernel_id
        return await super().start_kernel_for_session(session_id, path, name, type, kernel_name, **kwargs)


c.ServerApp.sock = RUN + "/jupyter.sock"
c.ServerApp.sock_mode = "0600"
c.ServerApp.root_dir = WORKSPACE
c.ServerApp.base_url = os.environ.get("GLOVEBOX_JUPYTER_BASE_URL", "/")
c.ServerApp.open_browser = False
c.ServerApp.quit_button = False
c.ServerApp.identity_provider_class = FileToken
c.ServerApp.session_manager_class = Sessions

# Whoever comes has passed the host's proxy, which brings the token with every
# request and has checked where it comes from.
c.ServerApp.allow_remote_access = True
c.ServerApp.trust_xheaders = True
c.ServerApp.terminals_enabled = True
c.ServerApp.terminado_settings = {"shell_command": ["/bin/bash", "-l"]}

# The kernels that the agent's cells run in.
c.ServerApp.allow_external_kernels = True
c.ServerApp.external_connection_dir = RUN + "/kernels"

# What starts, and what asks elsewhere.
c.ServerApp.jpserver_extensions = {
    "jupyterlab": True, "jupyter_server_terminals": True,
    "jupyter_lsp": False, "notebook_shim": False, "nbclassic": False,
}
c.LabApp.check_for_updates_class = "jupyterlab.NeverCheckForUpdate"
c.LabApp.news_url = None
c.LabApp.extension_manager = "readonly"
c.LabApp.collaborative = False
c.LabServerApp.blocked_extensions_uris = ""
c.KernelSpecManager.ensure_native_kernel = False
c.MappingKernelManager.default_kernel_name = "python3"
c.FileContentsManager.delete_to_trash = False
c.ContentsManager.allow_hidden = True
