//! The recommendation in words.

use poolwright_report::Unit;

use super::super::figure::Figure;
use super::super::format;
use super::{Advice, Alternative, Choice};

/// Number of settings that a sentence names.
const NAMED: usize = 4;

/// Formats the recommendation with its evidence: `Compression of table 1: zstd-3 – compression ratio 3.80x, time until
/// durable 42.0 ms (40.1 ms to 44.0 ms). The original chose lzjb: 1.84x, 47.0 ms (…)`.
pub(super) fn conclusion(advice: &Advice) -> String {
    let question = &advice.question;
    let Some(best) = advice.settings.iter().find(|setting| Some(&setting.case) == advice.case.as_ref())
    else {
        return match advice.dangerous.first() {
            Some(danger) => format!("{question}: no safe setting was measured; {danger}"),
            None => format!("{question}: not measured"),
        };
    };
    let mut text = match advice.verdict {
        Choice::NoDifference if advice.settings.len() == 1 => {
            format!("{question}: no choice, because nothing else was tried")
        }
        Choice::NoDifference => {
            let all = names(advice, advice.settings.iter());
            format!(
                "{question}: no setting is better beyond noise; keep {}. Not told apart: {all}",
                advice.values(&advice.set)
            )
        }
        _ => format!("{question}: {} – {}", advice.values(&advice.set), figures(advice, best, true)),
    };
    text += &original(advice, best);
    text.push('.');
    text += &against(advice, best);
    if advice.verdict == Choice::AmongBest || advice.verdict == Choice::TooFew {
        let tied = advice.settings.iter().filter(|s| !s.worse && s.case != best.case);
        let why = if advice.verdict == Choice::TooFew { " with so few trials" } else { "" };
        text += &format!(" Not told apart from it{why}: {}.", names(advice, tied));
    }
    if advice.verdict != Choice::Best {
        text += &worth(advice);
    }
    text.extend(advice.dangerous.iter().map(|danger| format!(" Dangerous: {danger}.")));
    text.extend(advice.conditions.iter().map(|of| format!(" {}.", poolwright_report::text::capitalised(of))));
    text
}

fn names<'a>(advice: &Advice, settings: impl Iterator<Item = &'a Alternative>) -> String {
    let all: Vec<String> = settings.map(|setting| advice.values(&setting.set)).collect();
    match all.len().checked_sub(NAMED) {
        Some(more) if more > 0 => format!("{} and {more} more", all[..NAMED].join(", ")),
        _ => all.join(", "),
    }
}

/// Formats the figures of a setting; with `titles`, each with the title of its measure.
fn figures(advice: &Advice, setting: &Alternative, titles: bool) -> String {
    let figure = |(i, figure): (usize, &Option<Figure>)| {
        let figure = figure.as_ref()?;
        let shown = format::figure(figure);
        let title = decapitalised(&advice.criteria[i].info.title);
        Some(if titles { format!("{title} {shown}") } else { shown })
    };
    setting.figures.iter().enumerate().filter_map(figure).collect::<Vec<_>>().join(", ")
}

/// Lowers the first letter of a title inside a sentence, unless it begins with an abbreviation: `ARC hit ratio`. The phase
/// before a colon stays as it is.
fn decapitalised(title: &str) -> String {
    let title = title.split_once(": ").map_or(title, |(_, title)| title);
    let mut letters = title.chars();
    match (letters.next(), title.chars().nth(1)) {
        (Some(first), Some(second)) if first.is_uppercase() && second.is_lowercase() => {
            first.to_lowercase().chain(letters).collect()
        }
        _ => title.to_owned(),
    }
}

/// Compares with the original's choice.
fn original(advice: &Advice, best: &Alternative) -> String {
    let Some(original) = &advice.original else { return String::new() };
    let Some(setting) = advice.settings.iter().find(|setting| setting.case == *original) else {
        return format!("; the original chose {original}");
    };
    if setting.case == best.case && advice.verdict != Choice::NoDifference {
        return "; the original chose the same".to_owned();
    }
    format!("; the original chose {}: {}", advice.values(&setting.set), figures(advice, setting, false))
}

/// Formats the objective against the original's choice, otherwise against the worst setting.
fn against(advice: &Advice, best: &Alternative) -> String {
    if matches!(advice.verdict, Choice::NoDifference | Choice::NotMeasured) {
        return String::new();
    }
    let of_original = |setting: &&Alternative| Some(&setting.case) == advice.original.as_ref();
    let ratio = |setting: &Alternative| setting.ratio.unwrap_or(1.0);
    let others = || advice.settings.iter().filter(|setting| setting.case != best.case);
    let worst = || others().max_by(|a, b| ratio(a).total_cmp(&ratio(b)));
    let Some(other) = others().find(of_original).or_else(worst) else { return String::new() };
    let Some(ratio) = other.ratio else { return String::new() };
    let show = |v| Unit::Ratio.format(v);
    let inverse = other.ci95.map(|(low, high)| (1.0 / high, 1.0 / low));
    let interval = format::interval(inverse, show).map_or(String::new(), |i| format!(" ({i})"));
    format!(
        " By the goal {}, its cost is {}{interval} that of {}.",
        advice.goal,
        show(1.0 / ratio),
        advice.values(&other.set)
    )
}

/// Formats the goal with its weights: `efficiency (compression ratio 40 %, time until durable 40 %, CPU 20 %)`.
pub fn goal(advice: &Advice) -> String {
    let weighed = advice.criteria.iter().filter(|c| c.weight > 0.0);
    let weights: Vec<String> =
        weighed.map(|c| format!("{} {:.0} %", decapitalised(&c.info.title), c.weight * 100.0)).collect();
    if weights.len() == 1 {
        return format!("{} ({} alone)", advice.goal, weights[0].trim_end_matches(" 100 %"));
    }
    format!("{} ({})", advice.goal, weights.join(", "))
}

/// Says what the intervals are worth if they are too wide to support a choice.
fn worth(advice: &Advice) -> String {
    let Some(widest) = advice.imprecise.first() else { return String::new() };
    let title = advice.criteria.iter().find(|c| c.info.name == widest.measure);
    let title = title.map_or(widest.measure.clone(), |c| decapitalised(&c.info.title));
    let more = match advice.imprecise.len() - 1 {
        0 => String::new(),
        1 => "; so is 1 other figure".to_owned(),
        n => format!("; so are {n} other figures"),
    };
    format!(
        " The intervals are too wide for this choice: {title} of {} is known to ±{:.0} % only{more}.",
        widest.case,
        widest.half_width * 100.0
    )
}
