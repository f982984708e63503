"""nginx as a plain proxy: ``least_conn``, connections kept, nothing buffered, no engine left out after a failure.

It neither counts nor decides.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from gateway_peers import SCRATCH, AbsentError, run

NAME, SHARE = "nginx", 1.0

_CONF = """daemon off;
worker_processes 1;
pid {folder}/nginx.pid;
error_log {folder}/error.log error;
events {{ worker_connections 8192; }}
http {{
  access_log off;
  client_max_body_size 16m;
  client_body_buffer_size 1m;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  keepalive_requests 1000000;
  upstream engines {{
    least_conn;
{servers}
    keepalive 512;
    keepalive_requests 1000000;
  }}
  server {{
    listen 127.0.0.1:{port};
    location / {{
      proxy_pass http://engines;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_buffering off;
      proxy_read_timeout 5s;
    }}
  }}
}}
"""


def _binary() -> Path:
    if found := shutil.which("nginx", path="/usr/sbin:/usr/bin:/usr/local/sbin:/usr/local/bin"):
        return Path(found)
    folder = SCRATCH / "nginx"
    binary = folder / "usr/sbin/nginx"
    if not binary.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        try:
            run(["apt-get", "download", "nginx"], NAME, folder)
        except AbsentError:
            run(["apt-get", "update"], NAME)
            run(["apt-get", "download", "nginx"], NAME, folder)
        for package in folder.glob("*.deb"):
            run(["dpkg", "-x", str(package), str(folder)], NAME)
    if not binary.is_file():
        raise AbsentError(f"{NAME}: no binary in the downloaded package")
    return binary


def have() -> str:
    return run([str(_binary()), "-v"], NAME).strip().rpartition("/")[2]


def command(folder: Path, engines: list[int], port: int) -> list[str]:
    servers = "\n".join(f"    server 127.0.0.1:{engine} max_fails=0;" for engine in engines)
    conf = folder / "nginx.conf"
    conf.write_text(_CONF.format(folder=folder, servers=servers, port=port))
    return [str(_binary()), "-p", str(folder), "-c", str(conf), "-e", str(folder / "error.log")]
