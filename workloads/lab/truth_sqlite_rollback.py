"""The SQLite of truth_sqlite with a rollback journal: writers wait for readers, and each transaction creates and removes a file."""

import truth_sqlite
from truth_sqlite import check, serving

__all__ = ["Clients", "check", "prepare", "serving"]


def prepare(spec, folder):
    """Prepares the documents."""
    truth_sqlite.prepare(spec, folder)
    db = truth_sqlite.connect(folder / "data")
    db.execute("pragma journal_mode=delete")
    db.close()


class Clients(truth_sqlite.Clients):
    """The same transactions."""

    JOURNAL = "delete"
