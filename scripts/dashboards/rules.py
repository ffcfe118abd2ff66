"""Writes the queries of dashboards as recording rules, so that promtool parses them.

usage: rules.py FILE...

Each variable of Grafana is replaced by an example: intervals by 5m and 6h, `top` by 10, others by `x`. Prints a rule file.

Exit status: 0 done, 2 wrong usage.
"""

import json
import re
import sys
from pathlib import Path

EXAMPLES = {"__rate_interval": "5m", "__range": "6h", "top": "10"}


def main():
    if len(sys.argv) < 2:
        print(__doc__, file=sys.stderr)
        return 2
    groups = []
    for path in map(Path, sys.argv[1:]):
        panels = json.loads(path.read_text())["panels"]
        queries = [target["expr"] for panel in panels for target in panel.get("targets", [])]
        rules = [{"record": f"query:{at}", "expr": substituted(query)} for at, query in enumerate(queries)]
        groups.append({"name": path.stem, "rules": rules})
    # JSON is YAML.
    json.dump({"groups": groups}, sys.stdout, indent=1)
    return 0


def substituted(query):
    """The query with an example in the place of each variable."""
    return re.sub(r"\$(\w+)", lambda name: EXAMPLES.get(name.group(1), "x"), query)


if __name__ == "__main__":
    sys.exit(main())
