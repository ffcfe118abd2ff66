"""OpenLDAP's slapd on LMDB, whose clients modify subscribers and look them up, over a Unix socket."""

import contextlib
import re
import socket
import urllib.parse

import ldap_data
import ldap_servers
import truth_loads
from common import driver, server

# Number of entries at size 1, of 2 KB each: 120 MB.
ENTRIES = 30_000
ENTRY_BYTES = 2000
MOST_BYTES = 1 << 30
READY_S = 30
PASSWORD = "lab"
ROOT = f"cn=admin,{ldap_data.SUFFIX}"


def check():
    """Yields a line for each missing requirement."""
    yield from server.missing("slapd", "slapd")
    yield from server.missing("slapadd", "slapd")


class _At:
    """Returns the specification with another directory for the database, as ldap_servers requires."""

    def __init__(self, spec, folder):
        self.scratch, self.folder = spec.scratch, folder

    def path(self, _role):
        return self.folder


def configured(spec, folder):
    """Returns slapadd's configuration with a user who may modify entries."""
    ldap = ldap_servers.OpenLdap(_At(spec, folder))
    ldap.prepare()
    # slapadd creates the file with its maximum size.
    text = re.sub(r"(?m)^maxsize .*$", f"maxsize {MOST_BYTES}", ldap.config.read_text())
    ldap.config.write_text(f'{text}rootdn "{ROOT}"\nrootpw {PASSWORD}\n')
    return ldap


def prepare(spec, folder):
    """Prepares the subscribers."""
    entries = max(500, round(ENTRIES * spec.get("size", 1.0)))
    ldif = spec.scratch / "telco.ldif"
    ldap_data.write_ldif(ldif, entries, ENTRY_BYTES, 1)
    ldap = configured(spec, folder / "data")
    server.run("slapadd", ldap.command(ldif), spec.scratch)
    ldif.unlink()


@contextlib.contextmanager
def serving(spec):
    """Runs slapd on the dataset."""
    ldap = configured(spec, spec.path("data"))
    driver.version("openldap", ldap.version())
    at = spec.scratch / "ldapi"
    url = "ldapi://" + urllib.parse.quote(str(at), safe="")
    # With -d it stays in the foreground.
    with server.Server("slapd", [server.find("slapd"), "-f", ldap.config, "-h", url, "-d", "0"], spec.scratch) as slapd:
        slapd.wait_ready(lambda: Connection(at).close() is None, READY_S)
        yield


class Clients(truth_loads.ProcessClients):
    """One modification, followed by a look-up of another entry in one of four transactions."""

    @contextlib.contextmanager
    def connect(self, number):
        draw = self.spec.random(f"client {number}")
        entries = max(500, round(ENTRIES * self.spec.get("size", 1.0)))
        with contextlib.closing(Connection(self.spec.scratch / "ldapi")) as connection:
            def transact():
                dn = f"uid=u{int(draw.random() ** 2 * entries):09d},{ldap_data.PEOPLE}"
                if draw.random() < 0.25:
                    connection.look(dn)
                else:
                    connection.modify(dn, "description", f"changed {draw.getrandbits(64):016x} by client {number}")

            yield transact


# ---- the required part of LDAP (RFC 4511) ----


def tlv(tag, *parts):
    """Encodes an element in BER."""
    content = b"".join(parts)
    if len(content) < 0x80:
        return bytes([tag, len(content)]) + content
    length = len(content).to_bytes((len(content).bit_length() + 7) // 8, "big")
    return bytes([tag, 0x80 | len(length)]) + length + content


def whole(tag, number):
    """Encodes a non-negative integer."""
    return tlv(tag, number.to_bytes(number.bit_length() // 8 + 1, "big"))


class Connection:
    """A connection with one request at a time."""

    def __init__(self, path):
        self.number = 0
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(60)
        self.socket.connect(str(path))
        self.stream = self.socket.makefile("rb")
        self._ask(tlv(0x60, whole(0x02, 3), tlv(0x04, ROOT.encode()), tlv(0x80, PASSWORD.encode())))

    def close(self):
        self.stream.close()
        self.socket.close()

    def modify(self, dn, attribute, value):
        """Replaces an attribute's values with one value."""
        change = tlv(0x30, whole(0x0A, 2), tlv(0x30, tlv(0x04, attribute.encode()), tlv(0x31, tlv(0x04, value.encode()))))
        self._ask(tlv(0x66, tlv(0x04, dn.encode()), tlv(0x30, change)))

    def look(self, dn):
        """Reads one entry."""
        present = tlv(0x87, b"objectClass")
        self._ask(tlv(0x63, tlv(0x04, dn.encode()), whole(0x0A, 0), whole(0x0A, 0), whole(0x02, 0), whole(0x02, 0),
                      tlv(0x01, b"\0"), present, tlv(0x30)))

    def _ask(self, operation):
        self.number += 1
        self.socket.sendall(tlv(0x30, whole(0x02, self.number), operation))
        # Entries that were found come first (0x64), then the result, which begins with its code.
        while (answer := self._answer())[0] == 0x64:
            pass
        _, body = element(answer)
        _, code = element(body)
        if any(code):
            raise OSError(f"slapd returned code {int.from_bytes(code, 'big')}")

    def _answer(self):
        """Returns the operation of the next message."""
        head = self._read(2)
        length = head[1]
        if length & 0x80:
            length = int.from_bytes(self._read(length & 0x7F), "big")
        message = self._read(length)
        # The message's number, which is short, precedes it.
        return message[2 + message[1]:]

    def _read(self, count):
        data = self.stream.read(count)
        if len(data) < count:
            raise OSError("slapd closed the connection")
        return data


def element(data):
    """Returns tag and content of the first element."""
    length, at = data[1], 2
    if length & 0x80:
        at += length & 0x7F
        length = int.from_bytes(data[2:at], "big")
    return data[0], data[at:at + length]
