"""Runs the snippets of docs/guide.md, in order, on a server of its own that the guide's first snippet starts.

Those of Rust, Go and Java are run by the tests of their SDKs; the one for .NET is run nowhere, and the guide says so."""
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
ELSEWHERE = {"rust", "go", "java", "csharp"}


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
    languages = {language for language, _ in found}
    assert len(found) >= 10 and languages == {"sh", "python", "js"} | ELSEWHERE
    return [snippet for snippet in found if snippet[0] not in ELSEWHERE]


def node_folder():
    """A folder where node finds the SDK; it is installed there when it is missing."""
    folder = pathlib.Path(os.environ.get("ARMILLA_NODE_FOLDER", ROOT / "conformance/js"))
    if not (folder / "node_modules/@azure/cosmos").is_dir():
        for tool in ("node", "npm"):
            assert shutil.which(tool), "the guide has a JavaScript snippet: install Node 20 or newer with npm"
        subprocess.run(["npm", "ci", "--no-audit", "--no-fund", "--loglevel=error"], cwd=folder, check=True, timeout=WITHIN)
    return folder


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
                command, folder = ["node", "--input-type=module", "-e", text], node_folder()
            done = subprocess.run(
                command, cwd=folder, env=environment, capture_output=True, text=True, timeout=WITHIN)
            assert done.returncode == 0, "%s\n%s\n%s" % (text, done.stdout, done.stderr)
        assert "<svg" in (tmp_path / "blog.html").read_text("utf-8")
        advice = (tmp_path / "advice.html").read_text("utf-8")
        assert "key not named by the query" in advice and "Keep &#39;commentCount" in advice.replace("'", "&#39;")
        assert (tmp_path / "posts.csv").read_text("utf-8").count("\n") == 5
    finally:
        server.terminate()
        server.wait(30)
