"""Makes a campaign from one workload of campaigns/truth.toml, with another list of settings."""

import copy
import json
import tomllib


# Keys that a study inherits from the campaign.
SHARED = ("measures", "factor", "phase")


class Workload:
    """A study of the campaign, at one scale."""

    def __init__(self, path, name, scale):
        self.campaign = tomllib.loads(path.read_text())
        self.name, self.scale = name, scale
        found = [s for s in self.campaign["study"] if s["name"] == name]
        if not found:
            names = ", ".join(s["name"] for s in self.campaign["study"])
            raise SystemExit(f"truth.sh: unknown workload {name!r}\nhint: the workloads are {names}")
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
        """The driver's parameters."""
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
        """Replaces the campaign's device profile."""
        for pool in (self.campaign["pool"], self.pool):
            pool["device"] = device
        if "pool" in self.study:
            self.study["pool"]["device"] = device

    def keep(self, names):
        """Keeps only these settings. The first one becomes today's."""
        levels = {level["name"]: level for level in self.factor["levels"]}
        self.factor["levels"] = [levels[name] for name in names]

    def name_of(self, properties):
        """The name of the setting with these properties of the data's dataset; adds the setting if it does not exist."""
        wanted = {**canonical(self.settings[self.today]), **canonical(properties)}
        for name, known in self.settings.items():
            if canonical(known) == wanted:
                return name
        extra = [f"{key}={value}" for key, value in sorted(wanted.items()) if key not in ("recordsize", "compression")]
        name = " ".join([wanted["recordsize"], wanted["compression"], *extra])
        self.factor["levels"].append({"name": name, "set": {f"data.{key}": value for key, value in wanted.items()}})
        return name

    def text(self, name, parameters):
        """The campaign as TOML, with this study alone. The text does not contain the number of blocks, because the lab adds blocks to an
        earlier run only if the text is the same."""
        study = copy.deepcopy(self.study)
        study["scale"] = {self.scale: {**study.get("scale", {}).get(self.scale, {}), **parameters}}
        campaign = {**self.campaign, "name": name, "study": [study]}
        return "".join(f"{_key(key)} = {_toml(value)}\n" for key, value in campaign.items())


def canonical(properties):
    """Replaces synonyms of property values by one spelling."""
    same = {("compression", "on"): "lz4"}
    return {key: same.get((key, value), value) for key, value in properties.items()}


def _toml(value):
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{_key(k)} = {_toml(v)}" for k, v in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    # JSON and TOML have the same syntax for strings, numbers and booleans.
    return json.dumps(value, ensure_ascii=False)


def _key(key):
    return key if key.replace("_", "").replace("-", "").isalnum() else json.dumps(key)
