# JupyterLab in the machine: on a unix socket only, for the host's proxy.
c.ServerApp.sock = "/run/glovebox/jupyter.sock"
c.ServerApp.sock_mode = "0600"
c.ServerApp.root_dir = "/workspace"
c.ServerApp.open_browser = False
c.ServerApp.allow_remote_access = True
