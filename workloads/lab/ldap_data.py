"""LDIF of a telephone company's subscribers, from a seed, and the schema that it needs.

The entries resemble those of such directories: an inetOrgPerson with postal and telephone attributes, the numbers that
identify the subscriber in the network, a line for each service, and keys in base64, folded as by LDIF tools. Names outside
ASCII are in base64 too. Each chunk has its own seed, so a longer file begins like a shorter one.
"""

import base64
import random

SUFFIX = "dc=telco,dc=example"
PEOPLE = f"ou=subscribers,{SUFFIX}"
FOLD = 78
CHUNK = 1000

GIVEN = """Ada Aisha Amir Ana Anton Beatriz Bruno Carla Chen Clara Dana David Elena Emil Eva Fatima Felix Finn Frida Georg
Hana Hugo Ida Ines Ivan Jana João José Karl Kenji Lars Lea Liam Linnéa Luca Maja Marco Mei Mia Milan Nadia Nils Noor Olga
Omar Otto Paul Petra Priya Ravi Rosa Sami Sara Sofia Søren Tariq Thea Tomás Uma Vera Wei Yara Yusuf Zoë""".split()
FAMILY = """Adler Almeida Andersson Bauer Becker Berg Bianchi Brown Carvalho Castro Chen Costa Cruz Dahl Diaz Dubois Evans
Ferrari Fischer Fuchs García Gomes Graf Gruber Haas Hansen Hill Horn Ito Ivanov Jansen Jensen Jones Kaya Keller Khan Kim
Klein König Kumar Lang Larsen Leroy Lima Lopez Maier Martin Meyer Moreau Müller Nagy Nguyen Novak Olsen Park Patel Pereira
Popov Ramos Ricci Rossi Roth Sato Schmid Silva Singh Smith Sousa Suzuki Tanaka Varga Vogel Wagner Walker Weber Wolf Wong
Yilmaz Young Zhang Ziegler""".split()
STREETS = "Station High Mill Church Park Garden Market River School Castle Bridge Forest Harbour King Linden Ring".split()
TOWNS = "Altona Bergen Coimbra Dover Essen Faro Graz Hasselt Imola Jena Kiel Linz Malmo Nancy Odense Porto".split()
SERVICES = """voicemail callforward.busy callforward.noreply callwaiting callerid conference roaming.eu roaming.world sms mms
data.home data.roaming prepaid.topup ringback barring.premium barring.international fax push.email location family.plan
music.stream tv.mobile hotspot insurance""".split()
STATES = ["active", "active", "active", "suspended", "pending", "expired"]

# Name, syntax, equality rule, whether it is single-valued. The numbers are in the arc of UUIDs, which anyone may use.
ARC = "2.25.139861742150967834210947"
_IA5, _DIGITS, _OCTETS = (f"1.3.6.1.4.1.1466.115.121.1.{n}" for n in (26, 36, 40))
ATTRIBUTES = [
    ("msisdn", _IA5, "caseIgnoreIA5Match", True),
    ("imsi", _DIGITS, "numericStringMatch", True),
    ("imei", _DIGITS, "numericStringMatch", True),
    ("telcoService", _IA5, "caseIgnoreIA5Match", False),
    ("telcoKey", _OCTETS, "octetStringMatch", False),
]


def schema():
    """Yields the definitions in the syntax of RFC 4512, as pairs of (attributeTypes or objectClasses, definition)."""
    for number, (name, syntax, rule, single) in enumerate(ATTRIBUTES, 1):
        one = " SINGLE-VALUE" if single else ""
        yield "attributeTypes", f"( {ARC}.1.{number} NAME '{name}' EQUALITY {rule} SYNTAX {syntax}{one} )"
    yield "objectClasses", (f"( {ARC}.2.1 NAME 'telcoSubscriber' SUP top AUXILIARY MUST ( msisdn $ imsi ) "
                            "MAY ( imei $ telcoService $ telcoKey ) )")


def write_ldif(path, entries, entry_bytes, seed):
    """Writes `entries` subscribers of `entry_bytes` on average (from 0.6 to 1.4 times that), below their two parent entries."""
    with open(path, "wb", buffering=1 << 20) as file:
        file.write(_parents())
        for first in range(0, entries, CHUNK):
            file.write(chunk(first, min(CHUNK, entries - first), entry_bytes, seed))


def chunk(first, count, entry_bytes, seed):
    """Returns `count` entries, starting with number `first`."""
    draw = random.Random(f"{seed}/ldif/{first // CHUNK}")
    return "".join(_entry(draw, first + n, entry_bytes) for n in range(count)).encode()


def _parents():
    return (f"dn: {SUFFIX}\nobjectClass: top\nobjectClass: domain\ndc: telco\n\n"
            f"dn: {PEOPLE}\nobjectClass: top\nobjectClass: organizationalUnit\nou: subscribers\n\n").encode()


def _entry(draw, number, entry_bytes):
    wanted = int(entry_bytes * (0.6 + 0.8 * draw.random()))
    lines = _person(draw, number)
    length = sum(map(len, lines)) + len(lines)
    for _ in range(2):
        key = _attribute("telcoKey", draw.randbytes(96 + draw.getrandbits(6)))
        lines.append(key)
        length += len(key) + 1
    serial = 0
    while length < wanted:
        line = _service(draw, serial)
        serial += 1
        lines.append(line)
        length += len(line) + 1
    return "\n".join(lines) + "\n\n"


def _person(draw, number):
    bits = draw.getrandbits(64)
    given, family = GIVEN[bits % len(GIVEN)], FAMILY[(bits >> 8) % len(FAMILY)]
    street, town = STREETS[(bits >> 16) % 16], TOWNS[(bits >> 20) % 16]
    house, code, phone = 1 + (bits >> 24) % 180, 10000 + (bits >> 32) % 80000, (bits >> 40) % 10_000_000
    uid = f"u{number:09d}"
    return [
        f"dn: uid={uid},{PEOPLE}",
        "objectClass: top", "objectClass: person", "objectClass: organizationalPerson", "objectClass: inetOrgPerson",
        "objectClass: telcoSubscriber",
        f"uid: {uid}",
        _text("cn", f"{given} {family}"), _text("sn", family), _text("givenName", given),
        f"initials: {given[0] if given[0].isascii() else 'X'}",
        f"mail: {uid}@{town.lower()}.telco.example",
        f"telephoneNumber: +49 {code} {phone:07d}", f"mobile: +49 17{bits % 10} {phone:07d}",
        f"street: {street} Street {house}", f"l: {town}", f"postalCode: {code}",
        f"postalAddress: {street} Street {house}${code} {town}",
        f"preferredLanguage: {('en', 'de', 'fr', 'pt')[bits % 4]}", f"employeeNumber: {number}",
        "description: " + ("private" if bits & 256 else "business") + f" customer since {1995 + (bits >> 9) % 15}",
        f"userPassword: {{SSHA}}{base64.b64encode(draw.randbytes(28)).decode()}",
        f"msisdn: 4917{number:010d}", f"imsi: 26207{number:010d}", f"imei: 35{draw.getrandbits(43):013d}",
    ]


def _service(draw, serial):
    bits = draw.getrandbits(48)
    name, state = SERVICES[bits % len(SERVICES)], STATES[(bits >> 6) % 6]
    year, month, day = 2001 + (bits >> 9) % 9, 1 + (bits >> 13) % 12, 1 + (bits >> 17) % 28
    line = (f"telcoService: {serial} {name};state={state};since={year}{month:02d}{day:02d};tariff=T{(bits >> 22) % 40:02d};"
            f"quota={100 * ((bits >> 28) % 50)};used={(bits >> 34) % 5000}")
    return line if len(line) <= FOLD else _fold(line)


def _text(name, value):
    return f"{name}: {value}" if value.isascii() else _attribute(name, value.encode())


def _attribute(name, value):
    return _fold(f"{name}:: {base64.b64encode(value).decode()}")


def _fold(line):
    rest = [line[:FOLD]]
    rest += [line[at:at + FOLD - 1] for at in range(FOLD, len(line), FOLD - 1)]
    return "\n ".join(rest)
