"""The short form of truth.sh (--check): three settings in short windows, and a line for each workload."""

import itertools
import sys
import tomllib

import compare
from campaign import Workload
from run import CAMPAIGN, ROOT, Run, arguments, say

# Today's setting, and two that differ from it in most databases.
SETTINGS = ("128K lz4", "128K zstd-3", "1M lz4")
# Override the defaults of a full run. The user's options override these.
SHORT = ["--blocks", "1", "--seconds", "5", "--warm", "2", "--record", "4", "--size", "0.25", "--rounds", "1",
         "--replay-options", "--application --call-time 4us --first 3s"]
CAVEAT = ("Short windows check that predictions can be made and have the right signs. They do not measure the errors of predictions: "
          "run scripts/truth.sh WORKLOAD for that.")


def main():
    names = list(itertools.takewhile(lambda word: not word.startswith("-"), sys.argv[1:]))
    more, failed = sys.argv[1 + len(names):], []
    # Parse all options first, so that a wrong option fails before any workload runs.
    runs = {name: options_of(name, more) for name in names or workloads()}
    for name, options in runs.items():
        try:
            print(line(name, checked(options)), flush=True)
        except SystemExit as why:
            print(f"{name}: NOT RUN: {why}", flush=True)
            failed.append(name)
    say(CAVEAT)
    sys.exit(1 if failed else 0)


def options_of(name, more):
    """The options of a workload's short run, whose results are in a separate directory."""
    options = arguments([name, *SHORT, *more])
    # With a single block, a setting would have no trial left. The line names the disturbed ones.
    options.keep_disturbed = True
    options.out = (options.out or ROOT / "lab-results" / "truth-check") / name
    return options


def workloads():
    """All studies of the campaign."""
    return [study["name"] for study in tomllib.loads(CAMPAIGN.read_text())["study"]]


def checked(options):
    """Runs one workload and returns the comparison; exits if a setting was not measured."""
    workload = Workload(CAMPAIGN, options.workload, options.scale)
    workload.keep(SETTINGS)
    run = Run(workload, options)
    run.record()
    found = run.compared()
    measured = {s["setting"]: s for s in found["settings"]}
    if missing := [name for name in SETTINGS if name not in measured]:
        sys.exit(run.without_trials(missing))
    if missing := [name for name in SETTINGS if "predicted" not in measured[name]]:
        sys.exit(f"no replay of {', '.join(missing)} succeeded; its error is above")
    return found


def line(name, found):
    """The line of a workload: its rates, and whether their signs and their order agree."""
    def described(setting):
        true, predicted = setting["truth"]["change"]["rate"]["ratio"], setting["predicted"]["change"]["rate"]
        return f"{setting['setting']} {100 * (true - 1):+.0f} % (predicted {100 * (predicted - 1):+.0f} %)"
    agree = compare.agreement(found)
    rates = ", ".join(described(s) for s in found["settings"] if s["setting"] != found["today"])
    verdicts = ", ".join(f"{what} {verdict(agree[what])}" for what in ("signs", "order"))
    seen = [*found["left_out"], *found["disturbed"]]
    disturbed = f"; DISTURBED by other processes: {', '.join(seen)}" if seen else ""
    return f"{name}: work rate against {found['today']}: {rates}; {verdicts}{disturbed}"


def verdict(counted):
    """Whether all clear differences agree."""
    if not counted["of"]:
        return f"not compared (no difference above {100 * compare.CLEAR:g} %)"
    return "agree" if counted["agree"] == counted["of"] else f"DISAGREE in {counted['of'] - counted['agree']} of {counted['of']}"


if __name__ == "__main__":
    main()
