"""Runs the snippets of docs/sdks: they trust the server's certificate and speak https.

One test per page; a page whose tools are missing is skipped. The one in Java itself is run by the tests of that SDK, those
in C# by nobody here. Rust's page has none."""
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

from test_guide import ROOT, SNIPPET, WITHIN, binary, free_port, node_folder

PAGES = ROOT / "docs/sdks"
ELSEWHERE = {"java", "csharp"}
# What Java's snippet starts: it reads a page over https and so shows that the trust store was found.
APPLICATION = """
public class App {
    public static void main(String[] arguments) throws Exception {
        try (var page = java.net.URI.create("https://localhost:8081/_explorer/emulator.pem").toURL().openStream()) {
            System.out.println("Rings " + page.readAllBytes().length);
        }
    }
}
"""


def of_page(name):
    found = SNIPPET.findall((PAGES / name).read_text("utf-8"))
    return [(language, text) for language, text in found if language not in ELSEWHERE]


def of_guide(language):
    found = SNIPPET.findall((ROOT / "docs/guide.md").read_text("utf-8"))
    return next(text for known, text in found if known == language)


def need(*tools):
    missing = [tool for tool in tools if not shutil.which(tool)]
    if missing:
        pytest.skip("there is no %s on this machine" % " and no ".join(missing))


class Served:
    """A server, a folder to work in, and the certificate in it."""

    def __init__(self, folder, port):
        self.folder, self.port = folder, port

    def run(self, command):
        environment = {name: value for name, value in os.environ.items() if not name.startswith("ARMILLA_")}
        environment.pop("NODE_TLS_REJECT_UNAUTHORIZED", None)
        done = subprocess.run(
            command, cwd=self.folder, env=environment, capture_output=True, text=True, timeout=WITHIN)
        assert done.returncode == 0, "%s\n%s\n%s" % (command, done.stdout, done.stderr)
        return done.stdout

    def shell(self, text):
        return self.run(["sh", "-e", "-c", self.here(text)])

    def python(self, text):
        return self.run([sys.executable, "-c", self.here(text)])

    def write(self, name, text):
        (self.folder / name).write_text(self.here(text), "utf-8")

    def here(self, text):
        return text.replace("8081", str(self.port))


@pytest.fixture
def served(tmp_path):
    armilla, port = binary(), free_port()
    server = subprocess.Popen(
        [armilla, "serve", "--in-memory", "--port", str(port)], stdout=subprocess.PIPE, cwd=tmp_path, text=True)
    try:
        assert "is ready" in server.stdout.readline()
        served = Served(tmp_path, port)
        served.python(of_guide("python"))
        for _, text in of_page("README.md"):
            served.shell(text)
        assert "BEGIN CERTIFICATE" in (tmp_path / "armilla.pem").read_text("utf-8")
        yield served
    finally:
        server.terminate()
        server.wait(30)


def secure(text):
    return text.replace("http://localhost", "https://localhost")


def test_every_page_is_run_or_named():
    languages = {page.name: [language for language, _ in of_page(page.name)] for page in PAGES.glob("*.md")}
    assert languages == {
        "README.md": ["sh"], "python.md": ["python"], "javascript.md": ["sh"], "go.md": ["sh"],
        "java.md": ["sh"], "rust.md": [], "dotnet.md": []}


def test_python(served):
    key = re.search('^KEY = .*$', of_guide("python"), re.M).group()
    (_, snippet), = of_page("python.md")
    program = "from azure.cosmos import CosmosClient\n%s\n%s" % (key, snippet)
    program += "print(client.get_database_client('blog').get_container_client('posts').read_item('p1', 'p1')['title'])"
    assert "Rings" in served.python(program)


def test_javascript(served):
    need("node")
    (served.folder / "node_modules").symlink_to(node_folder() / "node_modules")
    served.write("app.mjs", secure(of_guide("js")))
    (_, snippet), = of_page("javascript.md")
    assert "Rings" in served.shell(snippet)


def test_go(served):
    need("go")
    for name in ("go.mod", "go.sum"):
        shutil.copy(ROOT / "conformance/go" / name, served.folder)
    served.write("main.go", secure(of_guide("go")))
    (_, snippet), = of_page("go.md")
    assert "Rings" in served.shell(snippet)


def test_java(served):
    need("java", "javac", "jar", "keytool")
    served.write("App.java", APPLICATION)
    served.run(["javac", "App.java"])
    served.run(["jar", "--create", "--file", "app.jar", "--main-class", "App", "App.class"])
    (_, snippet), = of_page("java.md")
    assert "Rings" in served.shell(snippet)
