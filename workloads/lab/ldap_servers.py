"""The importers: OpenDJ's import-ldif and OpenLDAP's slapadd, each with its own configuration in the scratch directory.

Both have the telco schema and the same indexes (uid and msisdn, for equality), and check each entry against the schema,
which is their default.
"""

import contextlib
import os
import re
import shutil
import subprocess
import tarfile
from pathlib import Path

import ldap_data
from common import server
from common.driver import Failure

INDEXED = ["uid", "msisdn"]
FETCH = "scripts/lab/fetch.sh opendj (make lab does that) brings it"
JAVA = "java is not installed: apt install default-jre-headless, or scripts/install.sh --for lab"


def check():
    """Yields a line for each missing requirement; the tools' directory is not known yet, so the default one is checked."""
    yield from server.missing("slapadd", "slapd")
    if server.find("java") is None:
        yield JAVA
    if not (_default_tools() / "opendj" / "setup").exists():
        yield f"OpenDJ is not in target/lab/opendj: {FETCH}"


def _default_tools():
    return Path(os.environ.get("POOLWRIGHT_LAB_TOOLS") or Path(__file__).resolve().parents[2] / "target" / "lab")


def of(spec):
    """Returns the importer that the parameter `server` names."""
    known = {"opendj": OpenDj, "openldap": OpenLdap}
    name = spec.get("server", "opendj")
    if name not in known:
        raise Failure(f"unknown server {name!r}; expected {' or '.join(known)}")
    return known[name](spec)


class OpenLdap:
    """slapadd -q: no transactions, no checks across entries, one thread for parsing and one for the indexes."""

    name, product = "slapadd", "openldap"

    def __init__(self, spec):
        self.database, self.config = spec.path("db") / "openldap", spec.scratch / "slapd.conf"
        self.scratch = spec.scratch

    def prepare(self):
        """Writes the configuration and an empty database."""
        self.database.mkdir(exist_ok=True)
        modules = next((p for p in ("/usr/lib/ldap", "/usr/lib/openldap") if os.path.isdir(p)), None)
        if modules is None or server.find("slapadd") is None:
            raise Failure("OpenLDAP's slapadd is missing: apt install slapd, or scripts/install.sh --for lab")
        lines = [f"include /etc/ldap/schema/{name}.schema" for name in ("core", "cosine", "inetorgperson")]
        words = {"attributeTypes": "attributetype", "objectClasses": "objectclass"}
        lines += [f"{words[kind]} {text}" for kind, text in ldap_data.schema()]
        lines += [
            f"modulepath {modules}", "moduleload back_mdb", "tool-threads 2", "database mdb",
            f'suffix "{ldap_data.SUFFIX}"', f"directory {self.database}", f"maxsize {1 << 40}", "index objectClass eq",
            *(f"index {name} eq" for name in INDEXED),
        ]
        self.config.write_text("\n".join(lines) + "\n")

    def command(self, ldif):
        return [server.find("slapadd"), "-q", "-f", self.config, "-b", ldap_data.SUFFIX, "-l", ldif]

    def environment(self):
        return dict(os.environ)

    def version(self):
        # -V alone would start the server.
        return said([server.find("slapd"), "-VV"], r"slapd ([\d.]+\S*)")

    def imported(self, log, entries):
        """slapadd stops at the first entry that it rejects, and does not report the number of imported entries."""
        return entries


class OpenDj:
    """import-ldif --offline of an instance in the scratch directory, with its database and temporary files on `db`."""

    name, product = "import-ldif", "opendj"
    FINAL = re.compile(r"Processed (\d+) entries, imported (\d+), skipped (\d+), rejected (\d+)")
    # The same options as in lib/_script-util.sh.
    EXPORTS = ["--add-exports=java.base/sun.security.x509=ALL-UNNAMED",
               "--add-exports=java.base/sun.security.tools.keytool=ALL-UNNAMED",
               "--add-opens=java.base/jdk.internal.loader=ALL-UNNAMED"]

    def __init__(self, spec):
        self.program, self.home, self.scratch = spec.tools / "opendj", spec.scratch / "opendj", spec.scratch
        self.cached = spec.cached
        self.database, self.temporary = spec.path("db") / "opendj", spec.path("db") / "import-tmp"
        self.heap, self.threads = spec.get("heap", "1g"), spec.get("threads", 0)

    def prepare(self):
        """Creates an instance with our schema and indexes and with its database on the dataset."""
        if not (self.program / "setup").exists():
            raise Failure(f"OpenDJ is not in {self.program}: {FETCH}")
        # The setup takes seconds of two Java virtual machines, and its result does not depend on the
        # directory.
        with tarfile.open(self.cached(f"opendj-{self._release()}.tar", self._install)) as installed:
            installed.extractall(self.scratch)
        (self.home / "config" / "schema" / "98-telco.ldif").write_text(self._schema())
        config = self.home / "config" / "config.ldif"
        config.write_text(configured(config.read_text(), self.database))
        self.database.mkdir(exist_ok=True)
        self.temporary.mkdir(exist_ok=True)

    def _release(self):
        return (self.program / "fetched").read_text().strip().split(":")[2]

    def _install(self, archive):
        shutil.copytree(self.program, self.home, symlinks=True)
        password = self.scratch / "opendj.password"
        password.write_text("not used: this server is never started\n")
        server.run("opendj-setup", self._java("setup", "org.opends.quicksetup.installer.SetupLauncher", [
            "--cli", "--no-prompt", "--acceptLicense", "--doNotStart", "--skipPortCheck", "--ldapPort", server.free_port(),
            "--adminConnectorPort", server.free_port(), "--hostname", "localhost", "--rootUserPasswordFile", password,
            "--baseDN", ldap_data.SUFFIX, "--backendType", "je",
        ]), self.scratch, env=self.environment())
        with tarfile.open(archive, "w") as file:
            file.add(self.home, arcname=self.home.name)
        shutil.rmtree(self.home)

    @staticmethod
    def _schema():
        lines = ["dn: cn=schema", "objectClass: top", "objectClass: ldapSubentry", "objectClass: subschema"]
        return "\n".join(lines + [f"{kind}: {text}" for kind, text in ldap_data.schema()]) + "\n"

    def command(self, ldif):
        arguments = ["--configFile", self.home / "config" / "config.ldif", "--offline", "--backendID", "userRoot",
                     "--ldifFile", ldif, "--tmpDirectory", self.temporary]
        threads = ["--threadCount", self.threads] if self.threads else []
        return self._java("import-ldif", "org.opends.server.tools.ImportLDIF", arguments + threads)

    def _java(self, script, main, arguments):
        """Returns the command of OpenDJ's script: the script itself would die of a signal and leave Java running."""
        java = server.find("java")
        if java is None:
            raise Failure(JAVA)
        # The heap is allocated at once, so that its growth is not measured.
        return [java, f"-Xms{self.heap}", f"-Xmx{self.heap}", *self.EXPORTS, f"-Dorg.opends.server.scriptName={script}",
                "-cp", f"{self.home}/classes:{self.home}/lib/*", main, *arguments]

    def environment(self):
        return {**os.environ, "INSTALL_ROOT": str(self.home), "INSTANCE_ROOT": str(self.home)}

    def version(self):
        return f"{self._release()} on Java {said([server.find('java'), '-version'], r'version .([0-9._]+)')}"

    def imported(self, log, entries):
        """Returns the reported number of imported entries; import-ldif continues after entries that it rejects."""
        final = self.FINAL.search(log)
        if final is None:
            raise Failure(f"import-ldif did not report the number of imported entries; see {self.scratch}/import-ldif.log")
        return int(final[2])


def configured(config, database):
    """Returns OpenDJ's config.ldif with the backend's database in another directory, and with our indexes only.

    The default indexes are for substrings of names; telco entries are looked up by number.
    """
    entries = re.split(r"\n\n+", config.strip("\n"))
    kept, template = [], None
    for entry in entries:
        index = re.match(r"dn: ds-cfg-attribute=([^,]+),cn=Index,ds-cfg-backend-id=userRoot,", entry, re.I)
        if index is None:
            kept.append(re.sub(r"(?m)^(ds-cfg-db-directory): db$", rf"\1: {database}", entry))
        elif index[1].lower() == "uid":
            template = entry
        # Indexes that the server itself uses stay: objectClass, entryUUID, aci and its own.
        if index and not _is_for_people(index[1]):
            kept.append(entry)
    if template is None or str(database) not in "\n".join(kept):
        raise Failure("unknown format of OpenDJ's config.ldif; this driver supports version 4.10: fetch that version")
    kept += [template.replace("ds-cfg-attribute=uid,", f"ds-cfg-attribute={name},").replace(
        "ds-cfg-attribute: uid", f"ds-cfg-attribute: {name}") for name in INDEXED]
    return "\n\n".join(kept) + "\n"


def _is_for_people(name):
    return name.lower() in {"cn", "sn", "givenname", "mail", "telephonenumber", "uid", "member", "uniquemember"}


def reader_of(pid, path):
    """Returns the path in /proc of the process's descriptor of `path`, or None if `path` is not open."""
    wanted = os.path.realpath(path)
    with contextlib.suppress(OSError):
        for fd in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                if os.readlink(f"/proc/{pid}/fd/{fd}") == wanted:
                    return f"/proc/{pid}/fdinfo/{fd}"
    return None


def said(program, pattern):
    """Returns the version that the program reports."""
    done = subprocess.run(program, capture_output=True, text=True, check=False)
    found = re.search(pattern, done.stdout + done.stderr)
    return found[1] if found else "unknown"
