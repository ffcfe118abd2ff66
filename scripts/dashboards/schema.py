"""Compares dashboards with Grafana's own models of them (grafana-foundation-sdk).

usage: schema.py FILE...

The models ignore a field that they do not know, and accept any value. Therefore each file is loaded and written again:

- a field or value that is missing or different afterwards is unknown to Grafana;
- each value is compared with the type that the model declares: names of enumerations, numbers, texts, lists.

The models do not have the types of variables, whose fields differ by type; those of all types are in one model.

Exit status: 0 clean, 1 something was found, 2 wrong usage.
"""

import enum
import json
import sys
import typing
from pathlib import Path

from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models import dashboard as models

MODELS = "grafana_foundation_sdk."


def main():
    if len(sys.argv) < 2:
        print(__doc__, file=sys.stderr)
        return 2
    register_default_plugins()
    found = [line for path in sys.argv[1:] for line in check(Path(path))]
    for line in found:
        print(line)
    return 1 if found else 0


def check(path):
    """Yields a line for each difference between a file and the models."""
    data = json.loads(path.read_text())
    if not data.get("panels"):
        yield f"{path.name}: no panels"
        return
    try:
        board = models.Dashboard.from_json(data)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        yield f"{path.name}: cannot be loaded: {error!r}"
        return
    again = json.loads(JSONEncoder().encode(board))
    yield from (f"{path.name}: {line}" for line in differences(data, again, "$"))
    yield from (f"{path.name}: {line}" for line in wrong_types(board, "$"))


def differences(ours, theirs, where):
    """Yields a line for each part of `ours` that `theirs` does not have."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for key, value in ours.items():
            if key in theirs:
                yield from differences(value, theirs[key], f"{where}.{key}")
            elif value is not None:
                yield f"{where}.{key} is not a field that Grafana knows"
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for at, (value, other) in enumerate(zip(ours, theirs)):
            yield from differences(value, other, f"{where}[{at}]")
    elif ours != theirs:
        yield f"{where} is {ours!r}, and {theirs!r} after loading"


def wrong_types(value, where):
    """Yields a line for each attribute of a model, and of the models in it, whose value does not have the declared type."""
    for name, declared in typing.get_type_hints(type(value)).items():
        attribute = getattr(value, name, None)
        inner = f"{where}.{name}"
        if not fits(attribute, declared):
            yield f"{inner} is {attribute!r}, not {declared}"
        yield from wrong_types_in(attribute, inner)


def wrong_types_in(value, where):
    if isinstance(value, list):
        for at, item in enumerate(value):
            yield from wrong_types_in(item, f"{where}[{at}]")
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from wrong_types_in(item, f"{where}.{key}")
    elif type(value).__module__.startswith(MODELS) and not isinstance(value, enum.Enum):
        yield from wrong_types(value, where)


def fits(value, declared):
    """Whether a value has a type, as far as JSON can tell."""
    origin, arguments = typing.get_origin(declared), typing.get_args(declared)
    if declared in (object, typing.Any):
        return True
    if origin is typing.Union:
        return any(fits(value, argument) for argument in arguments)
    if origin is typing.Literal:
        return value in arguments
    if origin is list:
        return isinstance(value, list) and all(fits(item, arguments[0]) for item in value)
    if origin is dict:
        return isinstance(value, dict) and all(fits(item, arguments[1]) for item in value.values())
    if isinstance(declared, type) and issubclass(declared, enum.Enum):
        return value in [member.value for member in declared] or value in list(declared)
    if declared is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    if declared is int:
        return isinstance(value, int) and not isinstance(value, bool)
    if isinstance(value, dict) and declared.__module__.startswith(MODELS):
        # The models leave some objects as they are.
        again = json.loads(JSONEncoder().encode(declared.from_json(value)))
        return not list(differences(value, again, ""))
    return isinstance(value, declared)


if __name__ == "__main__":
    sys.exit(main())
