#!/usr/bin/env bash
# OpenLDAP: slapadd; slapd, with entries added, changed and removed while it runs; slapcat; a complete read of its LMDB.
#
# usage: see lib.sh in this directory
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/../../lib.sh"
# shellcheck source=scripts/mount/databases/lib.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"

CONF=$WORK/slapd.conf
DB=$MNT/ldap
SOCKET=ldapi://$(printf %s "$WORK/ldapi" | sed 's,/,%2F,g')
SUFFIX=dc=example,dc=org
WHO=(-x -H "$SOCKET" -D "cn=admin,$SUFFIX" -w secret)

configure() {
    local schema
    for schema in core cosine inetorgperson; do echo "include /etc/ldap/schema/$schema.schema"; done
    cat <<CONFIG
modulepath /usr/lib/ldap
moduleload back_mdb
pidfile $WORK/openldap.pid
database mdb
suffix "$SUFFIX"
rootdn "cn=admin,$SUFFIX"
rootpw secret
directory $DB
maxsize 536870912
index objectClass,uid,mail eq
index cn,sn sub
CONFIG
}

# entries FROM TO: prints entries as LDIF.
entries() {
    seq "$1" "$2" | awk -v suffix="$SUFFIX" '{
        printf "dn: uid=u%d,ou=people,%s\nobjectClass: inetOrgPerson\nuid: u%d\ncn: Name %d\nsn: Sur %d\nmail: u%d@example.org\ndescription: %0900d\n\n",
            $1, suffix, $1, $1, $1 % 97, $1, $1 }'
}

start() {
    slapd -f "$CONF" -h "$SOCKET" -d 0 </dev/null >>"$WORK/slapd.log" 2>&1 &
    SERVER=$!
    await 30 ldapsearch "${WHO[@]}" -b "$SUFFIX" -s base dn || { tail -n 3 "$WORK/slapd.log"; return 1; }
}

stop() { kill -TERM "$SERVER"; await 30 gone "$SERVER"; }

content() { slapcat -f "$CONF" | grep -v '^entryCSN\|^contextCSN' | sha256sum; slapcat -f "$CONF" | grep -c '^dn:'; }

count() { ldapsearch "${WHO[@]}" -LLL -b "$SUFFIX" -E pr=1000/noprompt "$1" dn | grep -c '^dn:'; }

online() {
    local worker workers=()
    # Three concurrent clients.
    for worker in 1 2 3; do
        entries $((worker * 10000)) $((worker * 10000 + 299)) | ldapadd "${WHO[@]}" >/dev/null &
        workers+=($!)
    done
    for worker in "${workers[@]}"; do wait "$worker"; done
    seq 10000 10099 | awk -v s="$SUFFIX" '{ printf "uid=u%d,ou=people,%s\n", $1, s }' | ldapdelete "${WHO[@]}"
    seq 20000 20099 | awk -v s="$SUFFIX" '{ printf "dn: uid=u%d,ou=people,%s\nchangetype: modify\nreplace: sn\nsn: changed\n\n", $1, s }' \
        | ldapmodify "${WHO[@]}" >/dev/null
    [ "$(count '(uid=*)')" = 3800 ]
    [ "$(count '(sn=changed)')" = 100 ]
}

if [ "$VERB" = fill ]; then
    mkdir "$DB"
    configure >"$CONF"
    { printf 'dn: %s\nobjectClass: dcObject\nobjectClass: organization\no: x\ndc: example\n\n' "$SUFFIX"
      printf 'dn: ou=people,%s\nobjectClass: organizationalUnit\nou: people\n\n' "$SUFFIX"
      entries 1 3000; } >"$WORK/start.ldif"
    slapadd -f "$CONF" -l "$WORK/start.ldif"
    [ "$(slapcat -f "$CONF" | grep -c '^mail: ')" = 3000 ]
    start
    online
else
    start
    [ "$(count '(sn=changed)')" = 100 ]
fi
stop
same content content
mdb_stat -e -f -a "$DB" >/dev/null
mkdir -p "$WORK/copy" && rm -f "$WORK/copy/"* && mdb_copy -c "$DB" "$WORK/copy"
