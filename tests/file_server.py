"""A stand-in for dufs, for tests that need a process: it takes the same arguments and serves
files.

`written` writes it as a program of that name. With a file CRASH in its folder it ends at once. It
also ends when the process that started it does, even if that one is killed.
"""

import stat
import sys
from pathlib import Path
from textwrap import dedent

_PROGRAM = """
    import os
    import sys
    import threading
    import time
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
    from pathlib import Path

    folder = Path(sys.argv[1])
    told = dict(zip(sys.argv[2:], sys.argv[3:]))
    if (folder / "CRASH").exists():
        sys.exit("no way to serve this folder")


    def end_with(parent):
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)


    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            path = folder / self.path.removeprefix(told["--path-prefix"] + "/")
            names = [each.name for each in folder.iterdir()] if path == folder else None
            body = "\\n".join(names).encode() if names is not None else path.read_bytes()
            self.answer(200, body)

        def do_PUT(self):
            path = folder / self.path.removeprefix(told["--path-prefix"] + "/")
            path.write_bytes(self.rfile.read(int(self.headers["Content-Length"])))
            self.answer(201, b"")

        def answer(self, status, body):
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)


    threading.Thread(target=end_with, args=[os.getppid()], daemon=True).start()
    ThreadingHTTPServer((told["--bind"], int(told["--port"])), Handler).serve_forever()
"""


def written(folder: Path, name: str = "dufs") -> Path:
    """Write the program into the folder, as its only file, and return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / name
    program.write_text(f"#!{sys.executable}\n{dedent(_PROGRAM)}")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return program
