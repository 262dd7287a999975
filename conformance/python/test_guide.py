"""Runs every snippet of docs/guide.md, in order, on a server of its own that the guide's first snippet starts."""
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SNIPPET = re.compile(r"^```(\w+)\n(.*?)^```$", re.M | re.S)
WITHIN = 300


def binary():
    """The server's binary: named by ARMILLA_BINARY, else the newest that cargo has built."""
    if os.environ.get("ARMILLA_BINARY"):
        return pathlib.Path(os.environ["ARMILLA_BINARY"])
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    built = [path for path in (target / "release/armilla", target / "debug/armilla") if path.is_file()]
    if not built:
        pytest.xfail("no binary is built here; set ARMILLA_BINARY")
    return max(built, key=lambda path: path.stat().st_mtime)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def snippets():
    found = SNIPPET.findall((ROOT / "docs/guide.md").read_text("utf-8"))
    assert len(found) >= 6 and {language for language, _ in found} == {"sh", "python", "js"}
    return found


def node_folder():
    """A folder where node finds the SDK."""
    places = [os.environ.get("ARMILLA_NODE_FOLDER"), ROOT / "conformance/js", ROOT / "target/xtask/js"]
    for place in filter(None, places):
        if (pathlib.Path(place) / "node_modules/@azure/cosmos").is_dir():
            return pathlib.Path(place)
    return None


def test_every_snippet_of_the_guide_runs(tmp_path):
    armilla, port = binary(), free_port()
    path = tmp_path / "bin"
    path.mkdir()
    (path / "armilla").symlink_to(armilla.resolve())
    environment = dict(os.environ, PATH="%s:%s" % (path, os.environ["PATH"]), ARMILLA_KEY="")
    for name in ("ARMILLA_ENDPOINT", "ARMILLA_KEY"):
        environment.pop(name, None)
    (_, start), *rest = snippets()
    server = subprocess.Popen(
        ["sh", "-c", "exec %s --port %d" % (start.strip(), port)],
        stdout=subprocess.PIPE, cwd=tmp_path, env=environment, text=True)
    try:
        assert "is ready" in server.stdout.readline()
        for language, text in rest:
            text = text.replace("8081", str(port))
            if language == "sh":
                command, folder = ["sh", "-e", "-c", text], tmp_path
            elif language == "python":
                command, folder = [sys.executable, "-c", text], tmp_path
            else:
                folder = node_folder()
                if folder is None or shutil.which("node") is None:
                    continue
                command = ["node", "--input-type=module", "-e", text]
            done = subprocess.run(
                command, cwd=folder, env=environment, capture_output=True, text=True, timeout=WITHIN)
            assert done.returncode == 0, "%s\n%s\n%s" % (text, done.stdout, done.stderr)
        assert "<svg" in (tmp_path / "blog.html").read_text("utf-8")
        assert (tmp_path / "posts.csv").read_text("utf-8").count("\n") == 5
    finally:
        server.terminate()
        server.wait(30)
