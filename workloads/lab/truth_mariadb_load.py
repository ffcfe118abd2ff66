"""A bulk load into the MariaDB of truth_mariadb: batches of rows into new tables, beside the web shop's."""

import truth_mariadb
from truth_mariadb import check, prepare, serving

__all__ = ["Clients", "check", "prepare", "serving"]


class Clients(truth_mariadb.Clients):
    """sysbench with one batch per transaction."""

    SCRIPT = "bulk.lua"
