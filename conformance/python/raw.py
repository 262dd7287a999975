"""A signing HTTP client on the standard library, and raw sockets: for requests no SDK would send."""
import base64
import email.utils
import hashlib
import hmac
import http.client
import json
import socket
import ssl
import time
import urllib.parse

TIMEOUT = 20


def tls_context():
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


class Answer:
    def __init__(self, status, headers, body):
        self.status = status
        self.headers = {name.lower(): value for name, value in headers}
        self.body = body

    def json(self):
        return json.loads(self.body)

    @property
    def message(self):
        return self.json()["message"]


class Raw:
    """Sends what it is told to, signed unless told otherwise."""

    def __init__(self, endpoint, key):
        url = urllib.parse.urlparse(endpoint)
        self.host, self.port, self.tls = url.hostname, url.port, url.scheme == "https"
        self.key = base64.b64decode(key)

    def signed(self, verb, path, age=0):
        """The three headers of a signed request; `age` seconds old."""
        date = email.utils.formatdate(time.time() - age, usegmt=True)
        segments = [part for part in path.split("?")[0].split("/") if part]
        if len(segments) % 2:
            kind, link = segments[-1], "/".join(segments[:-1])
        else:
            kind, link = (segments[-2], "/".join(segments)) if segments else ("", "")
        text = "%s\n%s\n%s\n%s\n\n" % (
            verb.lower(), kind.lower(), urllib.parse.unquote(link), date.lower())
        mac = hmac.new(self.key, text.encode(), hashlib.sha256).digest()
        token = "type=master&ver=1.0&sig=" + base64.b64encode(mac).decode()
        return {
            "authorization": urllib.parse.quote(token, safe=""),
            "x-ms-date": date,
            "x-ms-version": "2020-07-15",
        }

    def send(self, verb, path, body=None, headers=None, sign=True, age=0, chunked=False):
        """One request on a connection of its own, answered in full."""
        kind = http.client.HTTPSConnection if self.tls else http.client.HTTPConnection
        options = {"context": tls_context()} if self.tls else {}
        connection = kind(self.host, self.port, timeout=TIMEOUT, **options)
        everything = self.signed(verb, path, age) if sign else {"x-ms-version": "2020-07-15"}
        everything.update(headers or {})
        if isinstance(body, (dict, list)):
            body = json.dumps(body).encode()
        try:
            try:
                connection.request(verb, path, body, everything, encode_chunked=chunked)
            except (BrokenPipeError, ConnectionResetError):
                pass  # refused before all was sent; the answer may be there nevertheless
            response = connection.getresponse()
            return Answer(response.status, response.getheaders(), response.read())
        finally:
            connection.close()

    def socket(self):
        """A connected socket, with TLS when the endpoint has it."""
        plain = socket.create_connection((self.host, self.port), timeout=TIMEOUT)
        return tls_context().wrap_socket(plain, server_hostname=self.host) if self.tls else plain

    def head(self, verb, path, **headers):
        """The head of a signed request as bytes, with the empty line at its end."""
        lines = ["%s %s HTTP/1.1" % (verb, path), "Host: %s:%d" % (self.host, self.port)]
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        lines += ["%s: %s" % pair for pair in {**self.signed(verb, path), **named}.items()]
        return ("\r\n".join(lines) + "\r\n\r\n").encode()


def status_of(received):
    """The status in the first line of what came back; None when nothing came."""
    if not received:
        return None
    return int(received.split(b" ", 2)[1])


def receive(connection, enough=lambda data: b"\r\n\r\n" in data):
    """Reads until it is enough, the other side closes, or the time is up."""
    data = b""
    try:
        while not enough(data):
            piece = connection.recv(65536)
            if not piece:
                break
            data += piece
    except (ConnectionError, ssl.SSLError):
        pass
    return data
