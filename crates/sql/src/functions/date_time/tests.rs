//! The documented examples of dates and times, and the corners of the calendar.

use super::*;
use crate::functions::tests::{NOW, check, evaluate};
use proptest::prelude::*;

#[test]
fn what_is_a_date() {
    for text in [
        "2024-12-12",
        "2024-12-12Z",
        "2024-12-12 20:21:25",
        "2024-12-12T20:21:25Z",
        "2024-12-12T20:21:25.1",
        "2024-12-12 20:21:25.1234567Z",
        "2024-02-29",
        "1601-01-01",
        "2024-12-12T20:21:25+01:00",
        "2024-12-12T20:21:25.5-0830",
        "2024-12-12 20:21:25 +14",
        "2024-12-12+02:00",
        "2024-12-12 +02",
        "9999-12-31T23:59:59.9999999Z",
    ] {
        assert!(parse(text).is_some(), "{text}");
    }
    for text in [
        "",
        "Z",
        "2024-12-12T20Z",
        "2024-12-12T20:21",
        "2024-12-12 20:21:25.",
        "2024-12-12T20:21:25.12345678",
        "2024-12-12T20:21:25+14:01",
        "2024-12-12T20:21:25+01:60",
        "2024-12-12T20:21:25+1:00",
        "2024-12-12T20:21:25+01:",
        "2024-12-12T20:21:25 Z",
        "2024-12-12T20:21:25+01:00Z",
        "1600-12-31",
        "1601-01-01T00:00:00+01:00",
        "9999-12-31T23:59:59-01:00",
        "2024-02-30",
        "2023-02-29",
        "1900-02-29",
        "0000-01-01",
        "2024-13-01",
        "2024-00-01",
        "2024-01-00",
        "24-01-01",
        "2024-01-01T24:00:00",
        "2024-01-01T00:60:00",
        "2024-01-01T00:00:60",
        "2024-1-1",
        "2024-12-12  20:21:25",
        "2024-12-12t20:21:25",
        "+024-01-01",
        "2024-12-12ZZ",
        "２０２４-01-01",
    ] {
        assert!(parse(text).is_none(), "{text}");
    }
}

#[test]
fn adding() {
    let add = |part: &str, count: &str, date: &str| {
        let count = armilla_model::json::parse(count.as_bytes()).unwrap();
        evaluate("DATETIMEADD", &[part.into(), count, date.into()]).to_string()
    };
    assert_eq!(add("yyyy", "1", "2020-07-03"), r#""2021-07-03T00:00:00.0000000Z""#);
    assert_eq!(add("mm", "-1", "2020-07-03"), r#""2020-06-03T00:00:00.0000000Z""#);
    assert_eq!(add("mm", "1", "2024-01-31"), r#""2024-02-29T00:00:00.0000000Z""#);
    assert_eq!(add("mm", "-13", "2024-03-31"), r#""2023-02-28T00:00:00.0000000Z""#);
    assert_eq!(add("yyyy", "1", "2024-02-29"), r#""2025-02-28T00:00:00.0000000Z""#);
    assert_eq!(add("dd", "-1", "2024-03-01"), r#""2024-02-29T00:00:00.0000000Z""#);
    assert_eq!(add("ss", "-25", "2020-07-03"), r#""2020-07-02T23:59:35.0000000Z""#);
    assert_eq!(add("ms", "1500", "2024-01-01"), r#""2024-01-01T00:00:01.5000000Z""#);
    assert_eq!(add("mcs", "1", "2024-01-01"), r#""2024-01-01T00:00:00.0000010Z""#);
    assert_eq!(add("ns", "149", "2024-01-01"), r#""2024-01-01T00:00:00.0000001Z""#);
    assert_eq!(add("ns", "50", "2024-01-01"), r#""2024-01-01T00:00:00.0000001Z""#);
    assert_eq!(add("DAY", "1", "2024-01-01T23:00:00-02:00"), r#""2024-01-03T01:00:00.0000000Z""#);
    for (part, count) in [
        ("century", "1"),
        ("weekday", "1"),
        ("dd", "1.5"),
        ("dd", r#""1""#),
        ("yyyy", "8000"),
        ("yyyy", "-2024"),
        ("mm", "9223372036854775807"),
        ("hh", "9223372036854775807"),
        ("ns", "-9223372036854775808000"),
    ] {
        assert_eq!(add(part, count, "2024-01-01"), "undefined", "{part} {count}");
    }
    assert_eq!(add("dd", "1", "yesterday"), "undefined");
}

#[test]
fn counting_boundaries() {
    let earlier = "2018-03-05T05:00:00.0000000";
    let later = "2019-02-04T16:00:00.0000000";
    for (part, count) in [("yyyy", 1), ("mm", 11), ("dd", 336), ("hh", 8075), ("ss", 29_070_000)] {
        let forward = [part.into(), earlier.into(), later.into()];
        let backward = [part.into(), later.into(), earlier.into()];
        assert_eq!(evaluate("DATETIMEDIFF", &forward), Value::from(count), "{part}");
        assert_eq!(evaluate("DATETIMEDIFF", &backward), Value::from(-count), "{part}");
    }
    check(&[
        ("DATETIMEDIFF", r#"["dd","2024-01-01T23:59:59","2024-01-02"]"#, "1"),
        ("DATETIMEDIFF", r#"["yyyy","2023-12-31T23:59:59","2024-01-01"]"#, "1"),
        ("DATETIMEDIFF", r#"["hh","2024-01-01T10:59:00","2024-01-01T11:01:00"]"#, "1"),
        ("DATETIMEDIFF", r#"["dd","1969-12-31T23:00:00","1970-01-01T01:00:00"]"#, "1"),
        ("DATETIMEDIFF", r#"["ms","2024-01-01","2024-01-01T00:00:01.5"]"#, "1500"),
        ("DATETIMEDIFF", r#"["ns","2024-01-01","2024-01-01T00:00:00.0000001"]"#, "100"),
        ("DATETIMEDIFF", r#"["ns","1601-01-01","9999-12-31"]"#, "undefined"),
        ("DATETIMEDIFF", r#"["ms","2024-01-01T00:00:00.1239999","2024-01-01T00:00:00.124"]"#, "0"),
        ("DATETIMEDIFF", r#"["ms","2024-01-01T00:00:00.9999999","2024-01-01T00:00:01"]"#, "1"),
        ("DATETIMEDIFF", r#"["dd","2024-01-01",5]"#, "undefined"),
    ]);
}

#[test]
fn bins() {
    let bin = |arguments: &[Value]| evaluate("DATETIMEBIN", arguments).to_string();
    let at = Value::from("2021-01-08T18:35:00.0000000");
    let of = |part: &str, size: i64| bin(&[at.clone(), part.into(), size.into()]);
    assert_eq!(bin(&[at.clone(), "dd".into()]), r#""2021-01-08T00:00:00.0000000Z""#);
    assert_eq!(of("hh", 5), r#""2021-01-08T15:00:00.0000000Z""#);
    assert_eq!(of("dd", 7), r#""2021-01-07T00:00:00.0000000Z""#);
    for part in ["mm", "yyyy", "ns", "weekday"] {
        assert_eq!(of(part, 1), "undefined");
    }
    assert_eq!(of("ns", 100), r#""2021-01-08T18:35:00.0000000Z""#);
    let half = bin(&[at.clone(), "hh".into(), 0.5.into()]);
    assert_eq!(half, r#""2021-01-08T18:30:00.0000000Z""#);
    for size in [0, -2] {
        assert_eq!(of("hh", size), "undefined");
    }
    let from = |part: &str, size: i64, origin: &str| {
        bin(&[at.clone(), part.into(), size.into(), origin.into()])
    };
    assert_eq!(from("dd", 7, "1601-01-01"), r#""2021-01-04T00:00:00.0000000Z""#);
    assert_eq!(from("dd", 7, "1600-12-31"), "undefined");
    // Before the origin, bins still begin at or before the time they hold.
    assert_eq!(from("dd", 7, "2021-01-10"), r#""2021-01-03T00:00:00.0000000Z""#);
    assert_eq!(
        bin(&["1969-12-31T23:59:59".into(), "hh".into(), 1.into()]),
        r#""1969-12-31T23:00:00.0000000Z""#
    );
    assert_eq!(from("dd", i64::MAX, "1970-01-01"), r#""1970-01-01T00:00:00.0000000Z""#);
    assert_eq!(from("dd", i64::MAX, "2022-01-01"), "undefined");
}

#[test]
fn formats() {
    let format = |pattern: &str| {
        evaluate("DATETIMEFORMAT", &["2024-10-10 14:40:20.12".into(), pattern.into()]).to_string()
    };
    assert_eq!(format("yyyyMMdd"), r#""20241010""#);
    assert_eq!(format("yyyy-MM-dd [HH:mm:ss]"), r#""2024-10-10 [14:40:20]""#);
    assert_eq!(format(r"To\da\y i\s: yyyy-MM-ddTHH"), r#""Today is: 2024-10-10T14""#);
    assert_eq!(format("ss.fff ss.FFF f F"), r#""20.120 20.120 1 1""#);
    assert_eq!(format("fffffffff"), r#""1200000""#);
    assert_eq!(format("é\\é\\"), r#""éé""#);
    assert_eq!(format("d/M/yy h:m tt"), r#""10/10/24 2:40 PM""#);
    assert_eq!(format("y yyy yyyyy dddd MMM t"), r#""24 24 2024 10 10 t""#);
    assert_eq!(format(""), "undefined");
    assert_eq!(format("\\"), "undefined");
    check(&[
        ("DATETIMEFORMAT", r#"["2024-10-10 14:40:20","ss.FFF"]"#, r#""20.""#),
        ("DATETIMEFORMAT", r#"["2024-10-10 14:40:20",1]"#, "undefined"),
    ]);
}

#[test]
fn parts() {
    let at = "2016-05-29T08:30:00.1301617";
    for (part, number) in [
        ("yyyy", 2016),
        ("yy", 2016),
        ("m", 5),
        ("d", 29),
        ("hour", 8),
        ("n", 30),
        ("s", 0),
        ("ms", 130),
        ("mcs", 130_161),
        ("ns", 130_161_700),
    ] {
        assert_eq!(evaluate("DATETIMEPART", &[part.into(), at.into()]), Value::from(number));
    }
    check(&[
        ("DATETIMEPART", r#"["weekday","2024-05-06"]"#, "1"),
        ("DATETIMEPART", r#"["DW","2024-05-05"]"#, "0"),
        ("DATETIMEPART", r#"["week","2024-05-05"]"#, "undefined"),
        ("DATETIMEPART", r#"["mm",20240506]"#, "undefined"),
        ("YEAR", r#"["2000-10-10"]"#, "2000"),
        ("MONTH", r#"["2000-12-12T10:00:00"]"#, "12"),
        ("DAY", r#"["1989-03-03T12:12:12.1234567Z"]"#, "3"),
        ("YEAR", r#"["bad"]"#, "undefined"),
        ("DATETIMEFROMPARTS", "[2017,4,20]", r#""2017-04-20T00:00:00.0000000Z""#),
        ("DATETIMEFROMPARTS", "[2017,4,20,13,15,20,3456789]", r#""2017-04-20T13:15:20.3456789Z""#),
        ("DATETIMEFROMPARTS", "[2024,2,29]", r#""2024-02-29T00:00:00.0000000Z""#),
        ("DATETIMEFROMPARTS", "[2023,2,29]", "undefined"),
        ("DATETIMEFROMPARTS", "[-2000,-1,-1]", "undefined"),
        ("DATETIMEFROMPARTS", "[2024,1,1,25]", "undefined"),
        ("DATETIMEFROMPARTS", "[2024,1,1,0,0,0,10000000]", "undefined"),
        ("DATETIMEFROMPARTS", "[2024,1,1.5]", "undefined"),
    ]);
}

#[test]
fn ticks_and_timestamps() {
    check(&[
        ("DATETIMETOTICKS", r#"["2015-05-19T12:00:00.0000000"]"#, "14320368000000000"),
        ("DATETIMETOTICKS", r#"["1970-01-01T00:00:00.0000001Z"]"#, "1"),
        ("DATETIMETOTIMESTAMP", r#"["2015-05-19T12:00:00.0000000"]"#, "1432036800000"),
        ("DATETIMETOTIMESTAMP", r#"["not a date"]"#, "undefined"),
        ("DATETIMETOTIMESTAMP", r#"["1969-12-31T23:59:59.9985Z"]"#, "-1"),
        ("DATETIMETOTICKS", r#"["2024-05-06T07:08:09+02:00"]"#, "17149720890000000"),
        ("TICKSTODATETIME", r#"[0,"yyyy"]"#, r#""1970""#),
        ("TIMESTAMPTODATETIME", "[0,1]", "undefined"),
        ("TICKSTODATETIME", "[15973607943002652]", r#""2020-08-13T23:19:54.3002652Z""#),
        ("TICKSTODATETIME", "[-116444736000000000]", r#""1601-01-01T00:00:00.0000000Z""#),
        ("TICKSTODATETIME", r#"["1"]"#, "undefined"),
        ("TICKSTODATETIME", "[9223372036854775807]", "undefined"),
        ("TIMESTAMPTODATETIME", "[-1]", r#""1969-12-31T23:59:59.9990000Z""#),
        ("TIMESTAMPTODATETIME", "[-11644473600000]", r#""1601-01-01T00:00:00.0000000Z""#),
        ("TIMESTAMPTODATETIME", "[1e300]", "undefined"),
    ]);
}

#[test]
fn the_clock() {
    check(&[
        ("NOW", "[]", r#""2024-10-14T14:20:30.6668888Z""#),
        ("NOW", r#"["ss",30]"#, r#""2024-10-14T14:21:00.6668888Z""#),
        ("NOW", r#"["ss"]"#, "undefined"),
        ("NOW", r#"["1d"]"#, r#""2024-10-15T14:20:30.6668888Z""#),
        ("NOW", r#"["1h"]"#, "undefined"),
        ("NOW", r#"["99999999999999999999d"]"#, "undefined"),
        ("AGO", r#"["1MONTH"]"#, r#""2024-09-14T14:20:30.6668888Z""#),
        ("DATETIMEADD", r#"["-1month","2024-03-31"]"#, r#""2024-02-29T00:00:00.0000000Z""#),
        ("AGO", r#"["yyyy",1]"#, r#""2023-10-14T14:20:30.6668888Z""#),
        ("AGO", r#"["ms",4]"#, r#""2024-10-14T14:20:30.6628888Z""#),
        ("AGO", r#"["dd",-9223372036854775808]"#, "undefined"),
        ("AGO", r#"["fortnight",1]"#, "undefined"),
        ("GETCURRENTDATETIME", "[]", r#""2024-10-14T14:20:30.6668889Z""#),
        ("GETCURRENTDATETIMESTATIC", "[]", r#""2024-10-14T14:20:30.6668888Z""#),
        ("GETCURRENTTIMESTAMP", "[]", "1728915630666"),
        ("GETCURRENTTIMESTAMPSTATIC", "[]", "1728915630666"),
    ]);
    assert_eq!(evaluate("GETCURRENTTICKS", &[]).as_i64(), Some(NOW + 1));
    assert_eq!(evaluate("GETCURRENTTICKSSTATIC", &[]).as_i64(), Some(NOW));
}

#[test]
fn what_is_a_time_span() {
    for text in ["1d", "-1month", "1HOUR", "00:05:00", "1.5d", "1 d", "1h"] {
        assert!(is_time_span(text), "{text}");
    }
    for text in ["", "d", "1", "+1d", " 1d", "P1D", "-"] {
        assert!(!is_time_span(text), "{text}");
    }
}

proptest! {
    #[test]
    fn ticks_survive_the_calendar(ticks in TICKS_MIN..=TICKS_MAX) {
        prop_assert_eq!(DateTime::from_ticks(ticks).to_ticks(), Some(ticks));
        prop_assert_eq!(parse(&format_ticks(ticks)), Some(ticks));
    }

    #[test]
    fn a_bin_begins_at_or_before_its_time(
        ticks in 0..TICKS_MAX, size in 1i64..400, origin in 0..TICKS_MAX, part in 0usize..9,
    ) {
        let names = ["yyyy", "mm", "dd", "hh", "mi", "ss", "ms", "mcs", "ns"];
        let part = DatePart::parse(names[part]).unwrap();
        if let Some(start) = part.bin(ticks, Number::Int(size), origin) {
            prop_assert!(start <= ticks);
        }
    }
}
