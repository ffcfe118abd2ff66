"""Errors of predictions relative to measurements: intervals, objectives, rank correlation, regret.

All figures are relative to today's setting. `truth` is setting → block → metric → value, `predicted` is setting → metric →
value; both have the metrics `rate` (work per second), `written` (vdev bytes written per unit of work) and `space` (bytes).
"""

import math
import statistics

# 97.5 % quantiles of Student's t by degrees of freedom. Between two entries the one with fewer degrees applies, which is wider.
T975 = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262, 10: 2.228, 11: 2.201,
        12: 2.179, 13: 2.160, 14: 2.145, 15: 2.131, 16: 2.120, 17: 2.110, 18: 2.101, 19: 2.093, 20: 2.086, 25: 2.060,
        30: 2.042, 40: 2.021, 60: 2.000, 120: 1.980}
# The goal `balanced` (docs/plan-format.md). Less is better for all three metrics; time per unit of work is the reciprocal of the rate.
WEIGHTS = {"space": 0.3, "time": 0.4, "written": 0.3}
# A rate is known if the 95 % interval of its ratio to today's rate, paired by block, extends at most this share from the mean.
WITHIN = 0.04
# Smaller changes are not compared by sign.
CLEAR = 0.05
# A predicted change of the rate is near the true one within this many percentage points.
NEAR = 10.0
# The metric for CPU use of other processes, in per cent, and the limit above which a trial counts as disturbed.
OTHERS = "others_cpu"
DISTURBS = 5.0
# Metrics of a plan, with their names in the comparison and in the table. Space is not among them: a plan counts only the files that were
# accessed, so the table compares the space of each setting's own prediction.
CLAIMS = {"work_rate": ("rate", "work rate"), "write_amplification": ("written", "bytes written per unit of work")}
# A plan that keeps today's settings is right if no other setting has a true objective below this.
WORTH_CHANGING = 0.95


def t975(degrees):
    """The 97.5 % quantile of Student's t."""
    return T975[max(n for n in T975 if n <= degrees)]


def geometric(values):
    """The geometric mean of positive values and its 95 % interval (low, high); None instead of the interval for fewer than two values."""
    logs = [math.log(v) for v in values]
    middle = statistics.fmean(logs)
    if len(logs) < 2:
        return math.exp(middle), None
    half = t975(len(logs) - 1) * statistics.stdev(logs) / math.sqrt(len(logs))
    return math.exp(middle), (math.exp(middle - half), math.exp(middle + half))


def uncertainty(values):
    """The distance from the mean to the upper end of the 95 % interval, as a share of the mean; None for fewer than two values."""
    if len(values) < 2:
        return None
    middle, interval = geometric(values)
    return interval[1] / middle - 1


def is_known(blocks, today_blocks, within=WITHIN):
    """Whether the ratio of the rate to today's is known within the bound. Rates are paired by block, so that an influence on a whole
    block, such as another guest of the host, cancels out."""
    unsure = uncertainty(ratios(blocks, today_blocks, "rate"))
    return unsure is not None and unsure <= within


def ratios(blocks, today_blocks, metric):
    """The metric's ratio to today's in each block that has both."""
    return [blocks[b][metric] / today_blocks[b][metric] for b in sorted(set(blocks) & set(today_blocks))
            if blocks[b].get(metric) and today_blocks[b].get(metric)]


def kendall(pairs):
    """Kendall's τ-b of (x, y) pairs, which allows for ties; None if all x or all y are equal."""
    agree = differ = tied_x = tied_y = 0
    for n, (x, y) in enumerate(pairs):
        for other_x, other_y in pairs[:n]:
            dx, dy = _sign(x - other_x), _sign(y - other_y)
            if dx and dy:
                agree += dx == dy
                differ += dx != dy
            tied_x += dx == 0
            tied_y += dy == 0
    count = len(pairs) * (len(pairs) - 1) // 2
    scale = math.sqrt((count - tied_x) * (count - tied_y))
    return (agree - differ) / scale if scale else None


def _sign(number):
    return (number > 0) - (number < 0)


def objective(of, today, weights=None):
    """The weighted geometric mean of the ratios to today's values, without metrics that are missing or 0 on either side."""
    total = weighted = 0.0
    for metric, weight in (weights or WEIGHTS).items():
        ratio = _ratio(of, today, metric)
        if ratio:
            total += weight * math.log(ratio)
            weighted += weight
    return math.exp(total / weighted) if weighted else None


def _ratio(of, today, metric):
    if metric == "time":
        of, today, metric = today, of, "rate"
    if not of.get(metric) or not today.get(metric):
        return None
    return of[metric] / today[metric]


def weights_for(predicted_today):
    """The weights of the metrics that the prediction has, so that both objectives are computed from the same metrics. (A read-only load
    writes nothing.)"""
    return {metric: weight for metric, weight in WEIGHTS.items()
            if predicted_today.get("rate" if metric == "time" else metric)} or WEIGHTS


def true_of(blocks, today_blocks, within=WITHIN, weights=None):
    """The measured figures of a setting, relative to today's setting in the same blocks."""
    shared = sorted(set(blocks) & set(today_blocks))
    metrics = sorted({metric for block in blocks.values() for metric in block})
    found = {
        "blocks": len(blocks),
        "median": {m: statistics.median([b[m] for b in blocks.values() if m in b]) for m in metrics},
        "rate_uncertainty": uncertainty([block["rate"] for block in blocks.values()]),
        "known": is_known(blocks, today_blocks, within),
        "change": {},
    }
    for metric in metrics:
        if metric == OTHERS:
            continue
        changes = ratios(blocks, today_blocks, metric)
        if changes:
            middle, interval = geometric(changes)
            found["change"][metric] = {"ratio": middle, "ci95": interval}
    objectives = [o for b in shared if (o := objective(blocks[b], today_blocks[b], weights)) is not None]
    if objectives:
        found["objective"], found["objective_ci95"] = geometric(objectives)
    return found


def steadied(rounds, today):
    """Combines rounds of predictions, each setting → metric → value, into one. A setting is compared with today's setting of the same
    round, because the speed of the host varies between rounds."""
    rounds = [each for each in rounds if each.get(today)]
    base = {metric: _middle([each[today][metric] for each in rounds if each[today].get(metric)])
            for metric in (rounds[0][today] if rounds else {}) if metric != OTHERS}
    found = {}
    for name in dict.fromkeys(name for each in rounds for name in each):
        pairs = [(each[name], each[today]) for each in rounds if each.get(name)]
        if not pairs:
            continue
        of = found.setdefault(name, {})
        for metric, value in base.items():
            changes = [one[metric] / now[metric] for one, now in pairs if one.get(metric) and now.get(metric)]
            if changes and value:
                of[metric] = value * _middle(changes)
        if others := [one[OTHERS] for one, _ in pairs if OTHERS in one]:
            of[OTHERS] = max(others)
    return found


def _middle(values):
    return geometric(values)[0] if values else None


def compare(truth, predicted, today, recommended=None, within=WITHIN, plan=None, keep_disturbed=False):
    """Compares one workload: `settings`, one for each measured setting, and figures over the settings whose rate is known.
    `left_out` lists the disturbed trials, unless they are kept. `plan` is the plan that `tune` made from the recording."""
    settings, weights = [], weights_for(predicted.get(today, {}))
    trials = disturbances((f"{name} block {block}", metrics) for name, blocks in truth.items() for block, metrics in blocks.items())
    every, truth = truth, truth if keep_disturbed else undisturbed(truth, today)
    left_out, kept = ([], trials) if truth is every else (trials, [])
    for name, blocks in truth.items():
        one = {"setting": name, "truth": true_of(blocks, truth[today], within, weights)}
        if name in predicted:
            change = {metric: value / predicted[today][metric] for metric, value in predicted[name].items()
                      if value and predicted[today].get(metric)}
            one["predicted"] = {"value": predicted[name], "change": change,
                                "objective": objective(predicted[name], predicted[today])}
            one["error_points"] = {
                metric: 100 * (ratio - one["truth"]["change"][metric]["ratio"])
                for metric, ratio in change.items() if metric in one["truth"]["change"]}
        settings.append(one)
    return {"today": today, "recommended": recommended, "within": within, "weights": weights, "settings": settings,
            "left_out": left_out, "disturbed": kept + disturbances(predicted.items()),
            "claims": claims(plan, settings, recommended),
            "keep_is_right": keep_is_right(plan, settings, today),
            "known": sum(s["truth"]["known"] for s in settings if s["setting"] != today),
            "not_known": [s["setting"] for s in settings if not s["truth"]["known"]],
            "in_interval": in_interval(settings, today),
            "order": order(truth, {s["setting"]: s["predicted"]["objective"] for s in settings if "predicted" in s}, today, weights),
            **_figures([s for s in settings if s["truth"]["known"]], today, recommended),
            "all": _figures(settings, today, recommended)}


def claims(plan, settings, recommended):
    """The plan's predicted changes by metric, and whether the true change is in the plan's interval. If the two intervals overlap, the
    difference is not significant."""
    true = next((s["truth"]["change"] for s in settings if s["setting"] == recommended), {})
    found = []
    for metric, (name, _) in CLAIMS.items():
        gain = (plan or {}).get("gain", {}).get(metric)
        if gain and name in true:
            low, high = gain["ci95"]
            ratio, (least, most) = true[name]["ratio"], true[name]["ci95"] or 2 * (true[name]["ratio"],)
            found.append({"metric": metric, "predicted": gain["change"], "ci95": [low, high], "true": ratio - 1,
                          "holds": low <= ratio - 1 <= high, "overlaps": low <= most - 1 and least - 1 <= high})
    return found


def keep_is_right(plan, settings, today):
    """Whether a plan that keeps today's settings is right: no other setting is worth a change. None for any other plan."""
    if not plan or plan["verdict"] != "keep":
        return None
    objectives = [s["truth"]["objective"] for s in settings if s["setting"] != today and s["truth"].get("objective")]
    return min(objectives, default=1.0) >= WORTH_CHANGING


def _figures(settings, today, recommended):
    both = [s for s in settings if "predicted" in s and s["truth"].get("objective") and s["predicted"]["objective"]]
    others = [s for s in both if s["setting"] != today]
    errors = [(abs(s["error_points"]["rate"]), s["setting"]) for s in others if "rate" in s["error_points"]]
    largest = max(errors, default=None)
    return {
        "compared": len(both),
        "rate_within_ten_points": {"agree": sum(error <= NEAR for error, _ in errors), "of": len(errors)},
        "kendall_tau": kendall([(s["predicted"]["objective"], s["truth"]["objective"]) for s in both]),
        "regret_percent": regret(settings, recommended),
        "signs": {
            "rate": signs([(s["predicted"]["change"].get("rate"), s["truth"]["change"]["rate"]["ratio"]) for s in others]),
            "objective": signs([(s["predicted"]["objective"], s["truth"]["objective"]) for s in others]),
        },
        "largest_rate_error_points": largest and {"points": largest[0], "setting": largest[1]},
    }


def signs(pairs):
    """How many of the (predicted ratio, true ratio) pairs have both on the same side of 1, of those with a clear true difference."""
    clear = [(predicted, true) for predicted, true in pairs if predicted is not None and abs(true - 1) > CLEAR]
    return {"agree": sum(_sign(predicted - 1) == _sign(true - 1) for predicted, true in clear), "of": len(clear)}


def order(truth, objectives, today, weights):
    """How many pairs of settings are predicted in their true order, of those whose true objectives differ significantly: the 95 %
    interval of their ratio, paired by block, does not contain 1. `objectives` are the predicted ones."""
    names = [name for name in truth if objectives.get(name)]
    true = {name: {b: o for b in set(truth[name]) & set(truth[today])
                   if (o := objective(truth[name][b], truth[today][b], weights)) is not None} for name in names}
    agree = of = 0
    for n, one in enumerate(names):
        for other in names[:n]:
            shared = sorted(set(true[one]) & set(true[other]))
            middle, interval = geometric([true[one][b] / true[other][b] for b in shared]) if shared else (1.0, None)
            if interval and not interval[0] <= 1 <= interval[1]:
                of += 1
                agree += _sign(objectives[one] - objectives[other]) == _sign(middle - 1)
    return {"agree": agree, "of": of}


def in_interval(settings, today):
    """How many predicted changes of the rate are in the 95 % interval of the true change."""
    both = [(s["predicted"]["change"]["rate"], s["truth"]["change"]["rate"]["ci95"]) for s in settings
            if s["setting"] != today and "rate" in s.get("predicted", {}).get("change", {}) and "rate" in s["truth"]["change"]]
    known = [(predicted, interval) for predicted, interval in both if interval]
    return {"agree": sum(low <= predicted <= high for predicted, (low, high) in known), "of": len(known)}


def undisturbed(truth, today):
    """The truth without the trials during which other processes, or other guests of the host, used much CPU time. Unchanged if no
    trial of today's settings would be left."""
    calm = {name: {block: metrics for block, metrics in blocks.items() if metrics.get(OTHERS, 0) <= DISTURBS}
            for name, blocks in truth.items()}
    return {name: blocks for name, blocks in calm.items() if blocks} if calm.get(today) else truth


def disturbances(seen):
    """A text for each (name, metrics) during which other processes used much CPU time."""
    return [f"{name}: {metrics[OTHERS]:.0f} %" for name, metrics in seen if metrics.get(OTHERS, 0) > DISTURBS]


def agreement(found):
    """Whether the predicted changes of the rate agree with the true ones, over all settings, known or not: their signs, and the order of
    pairs with a clear true difference."""
    changes = [(s["predicted"]["change"]["rate"], s["truth"]["change"]["rate"]["ratio"]) for s in found["settings"]
               if "rate" in s.get("predicted", {}).get("change", {}) and "rate" in s["truth"]["change"]]
    pairs = [(one[0] / other[0], one[1] / other[1]) for n, one in enumerate(changes) for other in changes[:n]]
    return {"signs": signs(changes), "order": signs(pairs)}


def regret(settings, recommended):
    """How many per cent the true objective of the recommended setting is above the best one; None if it was not measured."""
    objectives = {s["setting"]: s["truth"]["objective"] for s in settings if s["truth"].get("objective")}
    if recommended not in objectives:
        return None
    return 100 * (objectives[recommended] / min(objectives.values()) - 1)


# ---- the table ----


def table(title, found):
    """The comparison as Markdown."""
    lines = [
        f"## {title}", "",
        "| setting | blocks | rate 1/s | ± | mean ms | p99 ms | rate: true | predicted | error | written/work: true | predicted "
        "| space: true | predicted | objective: true | predicted | |",
        "| --- | --: | --: | --: | --: | --: | --: | --: | --: | --: | --: | --: | --: | --: | --: | --- |",
    ]
    lines += [_row(s, found) for s in found["settings"]]
    lines += [
        "",
        "The columns true and predicted are changes relative to today's setting in %; true ones with their 95 % interval. Errors are in "
        "percentage points.",
        "",
        f"- changes of the rate known within ±{100 * found['within']:g} % (95 %): {found['known']} of {len(found['settings']) - 1}"
        + (f"; not known: {', '.join(found['not_known'])}" if found["not_known"] else ""),
        f"- predicted changes of the rate in the 95 % interval of the true change: {_share(found['in_interval'])}",
        f"- pairs of settings predicted in their true order, of those whose true objectives differ significantly (95 %): {_share(found['order'])}",
        "",
        "| | settings that are known | all settings |",
        "| --- | --: | --: |",
    ]
    lines += [f"| {what} | {of(found)} | {of(found['all'])} |" for what, of in (
        ("settings compared, including today's", lambda f: f["compared"]),
        (f"predicted rates within {NEAR:g} points", lambda f: _share(f["rate_within_ten_points"])),
        ("largest error of a predicted rate, points", _largest),
        (f"signs that agree where the true rate differs by more than {100 * CLEAR:g} %", lambda f: _share(f["signs"]["rate"])),
        (f"signs that agree where the true objective differs by more than {100 * CLEAR:g} %", lambda f: _share(f["signs"]["objective"])),
        ("Kendall's τ of the objective", lambda f: _number(f["kendall_tau"], 2)),
        (f"regret of the recommended setting ({found['recommended'] or 'none'})", lambda f: _number(f["regret_percent"], 1, " %")),
    )] + [""]
    lines += [_claim(claim) for claim in found["claims"]]
    if found["keep_is_right"] is not None:
        lines.append(f"- the plan keeps today's settings: {'right' if found['keep_is_right'] else 'WRONG'} (right if no other "
                     f"setting has a true objective below {WORTH_CHANGING:g})")
    for key, what in (("left_out", "trials left out"), ("disturbed", "DISTURBED")):
        if found[key]:
            lines.append(f"- {what}, because other processes used more than {DISTURBS:g} % of the CPUs: {'; '.join(found[key])}")
    return "\n".join(lines) + "\n"


def _share(counts):
    return f"{counts['agree']} of {counts['of']}"


def _largest(figures):
    largest = figures["largest_rate_error_points"]
    return f"{largest['points']:.1f} ({largest['setting']})" if largest else "-"


def _claim(claim):
    low, high = (_number(100 * end, 1, sign=True) for end in claim["ci95"])
    where = "in the interval" if claim["holds"] else "outside, but the intervals overlap" if claim["overlaps"] else "outside"
    predicted, true = (_number(100 * claim[side], 1, sign=True) for side in ("predicted", "true"))
    return f"- the plan's change of {CLAIMS[claim['metric']][1]}: {predicted} [{low}, {high}] %; true {true} %: {where}"


def _row(setting, found):
    truth, predicted = setting["truth"], setting.get("predicted")
    median = truth["median"]
    marks = [word for word, holds in (
        ("today", setting["setting"] == found["today"]), ("recommended", setting["setting"] == found["recommended"]),
        ("not known", not truth["known"])) if holds]
    cells = [
        setting["setting"], str(truth["blocks"]), _number(median.get("rate"), 1),
        _number(_times(truth["rate_uncertainty"], 100), 1, " %"), _number(_times(median.get("mean_ns"), 1e-6), 2),
        _number(_times(median.get("p99_ns"), 1e-6), 2),
        _change(truth["change"].get("rate")), _predicted(predicted, "rate"),
        _number(setting.get("error_points", {}).get("rate"), 1, sign=True),
    ]
    for metric in ("written", "space"):
        cells += [_change(truth["change"].get(metric)), _predicted(predicted, metric)]
    cells += [_number(truth.get("objective"), 3), _number(predicted and predicted["objective"], 3), ", ".join(marks)]
    return "| " + " | ".join(cells) + " |"


def _times(value, factor):
    return None if value is None else value * factor


def _number(value, digits, unit="", sign=False):
    return "-" if value is None else f"{value:{'+' if sign else ''}.{digits}f}{unit}"


def _change(change):
    if change is None:
        return "-"
    middle = _number(100 * (change["ratio"] - 1), 1, sign=True)
    if change["ci95"] is None:
        return middle
    low, high = (_number(100 * (end - 1), 1, sign=True) for end in change["ci95"])
    return f"{middle} [{low}, {high}]"


def _predicted(predicted, metric):
    if predicted is None or metric not in predicted["change"]:
        return "-"
    return _number(100 * (predicted["change"][metric] - 1), 1, sign=True)
