"""One workload of campaigns/truth.toml as a campaign of its own, with another list of settings."""

import copy
import json
import tomllib


# What the campaign's studies share: a study without its own has the campaign's.
SHARED = ("measures", "factor", "phase")


class Workload:
    """A study of the campaign, at one scale."""

    def __init__(self, path, name, scale):
        self.campaign = tomllib.loads(path.read_text())
        self.name, self.scale = name, scale
        found = [s for s in self.campaign["study"] if s["name"] == name]
        if not found:
            names = ", ".join(s["name"] for s in self.campaign["study"])
            raise SystemExit(f"truth.sh: unknown workload {name!r}\nhint: there are {names}")
        shared = {key: self.campaign.pop(key) for key in SHARED if key in self.campaign}
        self.study = copy.deepcopy({**shared, **found[0]})
        self.study.pop("scales", None)
        self.pool = {**self.campaign["pool"], **self.study.get("pool", {})}
        self.factor = next(f for f in self.study["factor"] if f["name"] == "setting")

    @property
    def title(self):
        return self.study["title"]

    @property
    def parameters(self):
        """What the driver is given."""
        return {**self.campaign["scale"][self.scale], **self.study.get("parameters", {}),
                **self.study.get("scale", {}).get(self.scale, {})}

    @property
    def settings(self):
        """Setting → properties of the data's dataset; the first is today's."""
        return {level["name"]: {path.removeprefix("data."): value for path, value in level["set"].items()}
                for level in self.factor["levels"]}

    @property
    def today(self):
        return self.factor["levels"][0]["name"]

    @property
    def roles(self):
        """The datasets."""
        return list(self.study["datasets"])

    def on_device(self, device):
        """Another device under the pools than the campaign's."""
        for pool in (self.campaign["pool"], self.pool):
            pool["device"] = device
        if "pool" in self.study:
            self.study["pool"]["device"] = device

    def keep(self, names):
        """Only these settings; the first one is today's from now on."""
        levels = {level["name"]: level for level in self.factor["levels"]}
        self.factor["levels"] = [levels[name] for name in names]

    def name_of(self, properties):
        """The setting with these properties of the data's dataset, added if there is none."""
        wanted = {**canonical(self.settings[self.today]), **canonical(properties)}
        for name, known in self.settings.items():
            if canonical(known) == wanted:
                return name
        extra = [f"{key}={value}" for key, value in sorted(wanted.items()) if key not in ("recordsize", "compression")]
        name = " ".join([wanted["recordsize"], wanted["compression"], *extra])
        self.factor["levels"].append({"name": name, "set": {f"data.{key}": value for key, value in wanted.items()}})
        return name

    def text(self, name, parameters):
        """The campaign as TOML, with this study alone. It does not depend on the number of blocks: another text would be
        another run, to which blocks cannot be added."""
        study = copy.deepcopy(self.study)
        study["scale"] = {self.scale: {**study.get("scale", {}).get(self.scale, {}), **parameters}}
        campaign = {**self.campaign, "name": name, "study": [study]}
        return "".join(f"{_key(key)} = {_toml(value)}\n" for key, value in campaign.items())


def canonical(properties):
    """Properties with one spelling for what is the same."""
    same = {("compression", "on"): "lz4"}
    return {key: same.get((key, value), value) for key, value in properties.items()}


def _toml(value):
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{_key(k)} = {_toml(v)}" for k, v in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    # Strings, whole numbers, fractions and booleans are written alike in both.
    return json.dumps(value, ensure_ascii=False)


def _key(key):
    return key if key.replace("_", "").replace("-", "").isalnum() else json.dumps(key)
