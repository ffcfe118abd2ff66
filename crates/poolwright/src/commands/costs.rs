//! The file of `--costs`: the costs of operations on the virtual clock.

use std::ops::RangeInclusive;

use poolwright_base::quoted;
use poolwright_openzfs::clock::Costs;
use serde_json::{Map, Value};

use crate::failure::hint;

/// A number in the file: its name, its unit and its permitted values.
type Number = (&'static str, &'static str, RangeInclusive<u64>);

/// The largest values are far above those of any processor. They reject a number in another unit.
const NUMBERS: [Number; 4] = [
    ("call_ns", " of nanoseconds", 0..=1_000_000),
    ("switch_ns", " of nanoseconds", 0..=100_000_000),
    ("copy_ps", " of picoseconds", 0..=1_000_000),
    ("checksum_ps", " of picoseconds", 0..=1_000_000),
];
/// Optional; its default is 1000.
const CODEC_PERMILLE: Number = ("codec_permille", "", 1..=1_000_000);
const CODECS: &str = "codecs";
/// The bounds are those of `pw_cost_set_codec` in the engine. The number 0 of `ns` would mean that the cost is not known.
const CODEC_NUMBERS: [Number; 4] = [
    ("level", "", 0..=255),
    ("size_bits", "", 0..=25),
    ("ratio_bits", "", 0..=7),
    ("ns", " of nanoseconds", 1..=60_000_000_000),
];
const CODEC: &str = "codec";
const DECOMPRESS: &str = "decompress";
/// The values of `enum zio_compress` in OpenZFS that are codecs. Those below 3 are `inherit`, `on` and `off`.
const ALL_CODECS: RangeInclusive<u64> = 3..=16;

/// Reads the costs of work on the virtual clock from a file, for clap.
///
/// # Errors
/// A sentence for the user, and a hint.
pub fn parse_costs(path: &str) -> Result<Costs, String> {
    let text = std::fs::read(path).map_err(|why| format!("cannot read {}: {why}", quoted(&path)))?;
    parse(&text).map_err(|why| {
        let todo = "give a JSON object such as {\"call_ns\": 40, \"switch_ns\": 6000, \"copy_ps\": 100, \"checksum_ps\": 200}; `codecs` in \
                    it is a list like `codec_costs` of `replay --json`";
        format!("invalid costs in {}: {why}\n{}", quoted(&path), hint(todo))
    })
}

fn parse(text: &[u8]) -> Result<Costs, String> {
    let value: Value = serde_json::from_slice(text).map_err(|why| format!("not JSON: {why}"))?;
    let costs = value.as_object().ok_or("not a JSON object")?;
    NUMBERS.iter().try_for_each(|number| check_number(costs, number))?;
    check_names(costs, &NUMBERS, &[CODECS, CODEC_PERMILLE.0])?;
    if costs.contains_key(CODEC_PERMILLE.0) {
        check_number(costs, &CODEC_PERMILLE)?;
    }
    if let Some(codecs) = costs.get(CODECS) {
        let codecs = codecs.as_array().ok_or_else(|| format!("{CODECS} is not a list"))?;
        for (at, codec) in codecs.iter().enumerate() {
            check_codec(codec).map_err(|why| format!("entry {} of {CODECS}: {why}", at + 1))?;
        }
    }
    serde_json::from_value(value).map_err(|why| why.to_string())
}

fn check_codec(codec: &Value) -> Result<(), String> {
    let cost = codec.as_object().ok_or("not a JSON object")?;
    match cost.get(CODEC) {
        None => return Err(format!("{CODEC} is missing")),
        Some(codec) if codec.as_u64().is_some_and(|codec| ALL_CODECS.contains(&codec)) => {}
        Some(codec) => {
            return Err(format!(
                "{CODEC} {codec} is unknown: OpenZFS numbers lzjb 3, gzip-1 to gzip-9 5 to 13, zle 14, lz4 15, zstd 16"
            ));
        }
    }
    CODEC_NUMBERS.iter().try_for_each(|number| check_number(cost, number))?;
    check_names(cost, &CODEC_NUMBERS, &[CODEC, DECOMPRESS])?;
    match cost.get(DECOMPRESS) {
        Some(Value::Bool(_)) => Ok(()),
        Some(other) => Err(format!("{DECOMPRESS} is {other}, and must be true or false")),
        None => Err(format!("{DECOMPRESS} is missing")),
    }
}

fn check_number(object: &Map<String, Value>, (name, unit, range): &Number) -> Result<(), String> {
    let (least, most) = (range.start(), range.end());
    match object.get(*name) {
        None => Err(format!("{name} is missing")),
        Some(value) if value.as_u64().is_some_and(|number| range.contains(&number)) => Ok(()),
        Some(value) => {
            Err(format!("{name} is {value}, and must be a whole number{unit} from {least} to {most}"))
        }
    }
}

/// Refuses other names than those of the numbers and `others`: a misspelt one would be ignored.
fn check_names(object: &Map<String, Value>, numbers: &[Number], others: &[&str]) -> Result<(), String> {
    let is_known = |name: &str| others.contains(&name) || numbers.iter().any(|(known, ..)| *known == name);
    match object.keys().find(|name| !is_known(name)) {
        None => Ok(()),
        Some(name) => Err(format!("unknown name {}", quoted(name))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn good() -> Value {
        json!({"call_ns": 140, "switch_ns": 3000, "copy_ps": 150, "checksum_ps": 0, "codecs": [
            {"codec": 15, "level": 0, "size_bits": 17, "ratio_bits": 1, "decompress": false, "ns": 42_000},
            {"codec": 16, "level": 3, "size_bits": 17, "ratio_bits": 1, "decompress": true, "ns": 90_000},
        ]})
    }

    /// The message for the good costs with another value at a path; `None` removes what is there.
    fn message(path: &str, value: Option<Value>) -> String {
        let mut costs = good();
        let (parent, name) = path.rsplit_once('/').unwrap();
        let object = costs.pointer_mut(parent).unwrap().as_object_mut().unwrap();
        match value {
            Some(value) => object.insert(name.to_owned(), value),
            None => object.remove(name),
        };
        parse(costs.to_string().as_bytes()).unwrap_err()
    }

    #[test]
    fn a_file_is_read_with_and_without_codecs() {
        let costs = parse(good().to_string().as_bytes()).unwrap();
        assert_eq!((costs.call_ns, costs.switch_ns, costs.copy_ps, costs.checksum_ps), (140, 3000, 150, 0));
        let codecs = costs.codecs.iter().map(|of| (of.codec, of.level, of.decompress, of.ns));
        assert_eq!(codecs.collect::<Vec<_>>(), [(15, 0, false, 42_000), (16, 3, true, 90_000)]);
        // What a plan or another program writes.
        let own = serde_json::to_vec(&Costs::reference()).unwrap();
        assert_eq!(parse(&own).unwrap(), Costs::reference());
        let slower = Costs { codec_permille: 1300, ..Costs::reference() };
        assert_eq!(parse(&serde_json::to_vec(&slower).unwrap()).unwrap(), slower);
    }

    #[test]
    fn what_is_missing_or_misspelt_is_named() {
        assert_eq!(message("/switch_ns", None), "switch_ns is missing");
        assert_eq!(message("/codecs/1/ns", None), "entry 2 of codecs: ns is missing");
        assert_eq!(message("/codecs/0/decompress", None), "entry 1 of codecs: decompress is missing");
        assert_eq!(message("/codec", Some(json!([]))), "unknown name codec");
        assert_eq!(message("/codecs/0/size", Some(json!(1))), "entry 1 of codecs: unknown name size");
        assert_eq!(message("/codecs", Some(json!({}))), "codecs is not a list");
        let range = "codec_permille is 0, and must be a whole number from 1 to 1000000";
        assert_eq!(message("/codec_permille", Some(json!(0))), range);
    }

    #[test]
    fn numbers_have_bounds() {
        for (value, written) in [(json!(-1), "-1"), (json!(1.5), "1.5"), (json!(1_000_001), "1000001")] {
            let wanted = "and must be a whole number of nanoseconds from 0 to 1000000";
            assert_eq!(message("/call_ns", Some(value)), format!("call_ns is {written}, {wanted}"));
        }
        assert!(message("/copy_ps", Some(json!("150"))).starts_with("copy_ps is \"150\", and must be"));
        assert!(message("/checksum_ps", Some(json!(1e300))).contains("picoseconds from 0 to 1000000"));
        let cost = |name: &str, value: Value| message(&format!("/codecs/1/{name}"), Some(value));
        assert!(cost("ns", json!(0)).starts_with("entry 2 of codecs: ns is 0, and must be"));
        assert!(cost("size_bits", json!(26)).ends_with("from 0 to 25"));
        assert!(cost("ratio_bits", json!(8)).ends_with("a whole number from 0 to 7"));
        assert!(cost("level", json!(256)).ends_with("from 0 to 255"));
        assert!(cost("decompress", json!(1)).ends_with("decompress is 1, and must be true or false"));
    }

    #[test]
    fn an_unknown_codec_is_refused() {
        for codec in [json!(0), json!(2), json!(17), json!(-15), json!("lz4")] {
            let said = message("/codecs/0/codec", Some(codec.clone()));
            let wanted = format!("entry 1 of codecs: codec {codec} is unknown: OpenZFS numbers lzjb 3, ");
            assert!(said.starts_with(&wanted), "{said}");
        }
    }

    #[test]
    fn what_is_not_json_says_where_and_what_to_give() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("my costs.json");
        let said = |text: &str| {
            std::fs::write(&path, text).unwrap();
            parse_costs(path.to_str().unwrap()).unwrap_err()
        };
        let text = said("call_ns = 40\n");
        assert!(text.starts_with("invalid costs in ") && text.contains("my costs.json"), "{text}");
        assert!(text.contains(": not JSON: ") && text.contains("line 1 column 1"), "{text}");
        assert!(text.contains("\nhint: give a JSON object such as {\"call_ns\": 40, "), "{text}");
        assert!(said("[1]").contains("not a JSON object") && said("").contains("not JSON"));
        std::fs::remove_file(&path).unwrap();
        let text = parse_costs(path.to_str().unwrap()).unwrap_err();
        assert!(text.starts_with("cannot read ") && text.contains("No such file"), "{text}");
        // The example of the hint is valid.
        let hint = said("{}");
        let example = &hint[hint.rfind("{\"").unwrap()..=hint.find('}').unwrap()];
        assert_eq!(parse(example.as_bytes()).unwrap(), Costs::reference());
    }
}
