# shellcheck shell=bash
# The workload `openldap` of `truth.sh`: slapd on LMDB, which maps its file; three of four transactions modify one of 90,000 entries.

LAB=openldap
LAB_SIZE=3
# shellcheck source=scripts/vm/truth_lab.sh
. "$POOLWRIGHT_ROOT/scripts/vm/truth_lab.sh"

workload_fill() {
    lab_fill "$1" || return
    # slapadd extends the file to the size of the map. The guest's cp would write the zeros at its end.
    python3 -c '
import os, sys
with open(sys.argv[1], "r+b") as file:
    end = 0
    while (hole := os.lseek(file.fileno(), end, os.SEEK_HOLE)) < os.fstat(file.fileno()).st_size:
        try:
            os.lseek(file.fileno(), hole, os.SEEK_DATA)
        except OSError:
            file.truncate(hole)
            break
        end = os.lseek(file.fileno(), hole, os.SEEK_DATA)
' "$1/data/data/openldap/data.mdb"
}

workload_stage() {
    lab_stage "$2"
    add_programs "$2" slapd slapadd
    mkdir -p "$2/usr/lib/ldap" "$2/etc/ldap"
    cp -L /usr/lib/ldap/back_mdb* "$2/usr/lib/ldap/"
    cp -r /etc/ldap/schema "$2/etc/ldap/"
    add_libraries "$2" "$2"/usr/lib/ldap/*.so
}
