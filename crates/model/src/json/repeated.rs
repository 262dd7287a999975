//! Members of one name in one object: the last one counts, as every JavaScript reader and the service
//! have it.

/// Which members an object keeps: nothing when all names differ, else one answer for each member.
pub(super) fn kept<'n>(names: impl ExactSizeIterator<Item = &'n str> + Clone) -> Option<Vec<bool>> {
    /// Up to here names are compared pairwise; a hostile body with 100,000 members would make that 10^10
    /// comparisons.
    const PAIRWISE_MAX: usize = 16;
    let count = names.len();
    if count <= PAIRWISE_MAX {
        let seen_before =
            |(at, name): (usize, &str)| names.clone().take(at).any(|seen| seen == name);
        if !names.clone().enumerate().any(seen_before) {
            return None;
        }
    }
    let mut sorted: Vec<(&str, usize)> = names.enumerate().map(|(at, name)| (name, at)).collect();
    sorted.sort_unstable();
    let mut kept = vec![true; count];
    let mut repeated = false;
    for pair in sorted.windows(2) {
        if let [(name, earlier), (next, _)] = pair
            && name == next
        {
            kept[*earlier] = false;
            repeated = true;
        }
    }
    repeated.then_some(kept)
}

/// Drops what is not kept.
pub(super) fn retain<T>(members: &mut Vec<T>, kept: &[bool]) {
    let mut kept = kept.iter();
    members.retain(|_| kept.next().copied().unwrap_or(true));
}

/// Drops members from the compact text of an object. `starts` are the places of their names, the text ends
/// behind the last value (without a bracket). Returns where each member that stays begins now.
pub(super) fn cut(text: &mut Vec<u8>, starts: &[usize], kept: &[bool]) -> Vec<usize> {
    let Some(&first) = starts.first() else { return Vec::new() };
    let end = text.len();
    let mut at = first;
    let mut moved = Vec::with_capacity(starts.len());
    for (number, &start) in starts.iter().enumerate() {
        if !kept.get(number).copied().unwrap_or(true) {
            continue;
        }
        // A comma stands before every name but the first.
        let behind = starts.get(number + 1).map_or(end, |next| next - 1);
        if at > first {
            text[at] = b',';
            at += 1;
        }
        moved.push(at);
        text.copy_within(start..behind, at);
        at += behind - start;
    }
    text.truncate(at);
    moved
}

#[cfg(test)]
mod tests {
    use crate::json::{parse, parse_compact, parse_item, raw_objects};

    fn compact(text: &str) -> String {
        let mut out = b"before".to_vec();
        let value = parse_compact(text.as_bytes(), &mut out).unwrap();
        let out = String::from_utf8(out).unwrap();
        let text = out.strip_prefix("before").unwrap();
        assert_eq!(parse(text.as_bytes()).unwrap(), value, "text and value differ");
        text.to_owned()
    }

    #[test]
    fn the_last_member_of_a_name_counts() {
        assert_eq!(compact(r#"{"a":1,"a":2}"#), r#"{"a":2}"#);
        assert_eq!(
            compact(r#"{"a":1, "b":[1.50], "a":{"x":1,"x":2.0}}"#),
            r#"{"b":[1.50],"a":{"x":2.0}}"#
        );
        assert_eq!(
            compact(r#"{"a":{"a":1,"a":[]},"c":"," ,"a":3,"b":4}"#),
            r#"{"c":",","a":3,"b":4}"#
        );
        assert_eq!(compact(r#"[{"a":1,"\u0061":2},{"a":1,"A":2}]"#), r#"[{"a":2},{"a":1,"A":2}]"#);
    }

    #[test]
    fn many_members_are_compared_by_sorting() {
        let members: Vec<_> = (0..100).map(|n| format!("\"m{}\":{n}", n % 99)).collect();
        let text = compact(&format!("{{{}}}", members.join(",")));
        assert!(
            text.starts_with(r#"{"m1":1,"#) && text.ends_with(r#""m98":98,"m0":99}"#),
            "{text}"
        );
    }

    #[test]
    fn a_moved_id_is_found_and_a_second_one_refused() {
        let mut out = b"header".to_vec();
        let item =
            parse_item(br#"{"a":"long","id":"x","_ts":1,"a":2,"_ts":3}"#, &["_ts"], &mut out)
                .unwrap();
        assert_eq!(out, br#"header{"id":"x","a":2}"#);
        assert!(out[item.id_at.unwrap()..].starts_with(b"\"x\""));
        let refusal = parse_item(br#"{"id":"x","id":"y"}"#, &[], &mut out).unwrap_err();
        assert!(refusal.message.contains("'id' is there twice"), "{refusal}");
    }

    #[test]
    fn raw_members_keep_the_last_too() {
        let objects = raw_objects(br#"[{"a":1,"b":2,"a":3}]"#, &["a"]).unwrap();
        assert_eq!(objects[0], [("b".into(), b"2".as_slice()), ("a".into(), b"3".as_slice())]);
    }
}
