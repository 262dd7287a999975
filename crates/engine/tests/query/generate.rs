//! Random items and random queries over them.

pub(crate) use crate::support::Random;
use armilla_model::{Object, Value, json};

/// What is known of a query's answer.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shape {
    /// It has ORDER BY.
    pub(crate) ordered: bool,
    /// Its first key descends.
    pub(crate) descending: bool,
    /// The sequence of its rows is known.
    pub(crate) sequence: bool,
    /// It has TOP, or OFFSET and LIMIT.
    pub(crate) windowed: bool,
    /// The same query without them.
    pub(crate) without_window: String,
}

pub(crate) struct Generator<'r> {
    pub(crate) random: &'r mut Random,
}

const LONG: &str = "a long text that goes on and on so that the index holds only its beginning ";

/// Numbers that doubles do not tell apart, and doubles among them.
const LARGE: [&str; 9] = [
    "9007199254740992",
    "9007199254740993",
    "9007199254740993",
    "9007199254740994.0",
    "-9007199254740993",
    "9223372036854775806",
    "9223372036854775807",
    "9223372036854775808",
    "1e20",
];

impl Generator<'_> {
    /// A scalar as it stands in items and in queries.
    fn scalar(&mut self) -> String {
        match self.random.below(14) {
            0 => "null".to_owned(),
            1 => self.random.one_of(&["true", "false"]).to_owned(),
            2..=5 => self.random.below(8).to_string(),
            6 => format!("{}.{}", self.random.below(3), self.random.one_of(&["5", "1", "25"])),
            7 => format!("-{}", self.random.below(3)),
            8 => self.random.one_of(&LARGE).to_owned(),
            9 if self.random.one_in(2) => self.date(),
            9 => format!("\"{LONG}{}\"", self.random.below(4)),
            10 => format!("\"{}\"", &LONG[..self.random.one_of(&[2, 63, 64, 65])]),
            11 => "\"é\"".to_owned(),
            _ => format!("\"s{}\"", self.random.below(5)),
        }
    }

    /// A date before or after the clock of the benches, as some client writes it.
    fn date(&mut self) -> String {
        let year = self.random.one_of(&["2022", "2023", "2024"]);
        let zone = self.random.one_of(&["Z", "", "+00:00", "+02:00", "-0830"]);
        format!("\"{year}-11-14T22:13:2{}{zone}\"", self.random.below(3))
    }

    fn value(&mut self, depth: u32) -> String {
        match self.random.below(if depth > 2 { 8 } else { 11 }) {
            0..=7 => self.scalar(),
            8 => {
                let count = self.random.below(4);
                let elements: Vec<_> = (0..count).map(|_| self.value(depth + 1)).collect();
                format!("[{}]", elements.join(","))
            }
            _ => format!("{{\"b\":{},\"c\":{}}}", self.scalar(), self.value(depth + 1)),
        }
    }

    /// A new item.
    pub(crate) fn item(&mut self, number: u64) -> Value {
        let pk = match self.random.below(12) {
            0 => String::new(),
            1 => "\"pk\":null,".to_owned(),
            2 => "\"pk\":3,".to_owned(),
            3 => format!("\"pk\":{},", self.random.one_of(&LARGE[..3])),
            _ => format!("\"pk\":\"p{}\",", self.random.below(6)),
        };
        let t = match self.random.below(8) {
            0 => String::new(),
            _ => format!("\"t\":\"t{}\",", self.random.below(3)),
        };
        let salt = self.random.below(10_000);
        let members = self.members();
        let text = format!("{{\"id\":\"i{number}x{salt}\",{pk}{t}{members}\"z\":{number}}}");
        json::parse(text.as_bytes()).unwrap()
    }

    fn members(&mut self) -> String {
        let mut text = String::new();
        for name in ["n", "s", "a", "m"] {
            if !self.random.one_in(5) {
                let value = match name {
                    "n" if self.random.one_in(8) => self.random.one_of(&LARGE).to_owned(),
                    "n" if !self.random.one_in(6) => self.random.below(10).to_string(),
                    "s" if self.random.one_in(8) => self.date(),
                    "s" if !self.random.one_in(3) => format!("\"s{}\"", self.random.below(9)),
                    "a" => format!("{{\"b\":{},\"c\":{}}}", self.scalar(), self.scalar()),
                    _ => self.value(0),
                };
                text.push_str(&format!("\"{name}\":{value},"));
            }
        }
        if !self.random.one_in(4) {
            let count = self.random.below(4);
            let tags: Vec<_> = (0..count).map(|_| self.value(1)).collect();
            text.push_str(&format!("\"tags\":[{}],", tags.join(",")));
        }
        text
    }

    /// Another version of an item, with the same id and key.
    pub(crate) fn version_of(&mut self, item: &Value) -> Value {
        let text = format!("{{{}\"z\":{}}}", self.members(), self.random.below(100));
        let next = json::parse(text.as_bytes()).unwrap();
        let kept = ["id", "pk", "t"];
        let kept = kept.iter().filter_map(|name| Some(((*name).into(), item.get(name)?.clone())));
        let members =
            next.as_object().unwrap().iter().map(|(name, value)| (name.clone(), value.clone()));
        Value::object(kept.chain(members).collect::<Object>())
    }

    fn path(&mut self) -> &'static str {
        self.random.one_of(&[
            "c.n",
            "c.n",
            "c.n",
            "c.s",
            "c.s",
            "c.t",
            "c.t",
            "c.pk",
            "c.pk",
            "c.a.b",
            "c.a.b",
            "c.a.c",
            "c.a",
            "c.m",
            "c.id",
            "c.z",
            "c.tags[0]",
            "c.tags",
            "c.none",
            "c.m.b",
            "c._ts",
            "c.low",
            "c.pair.b",
        ])
    }

    fn comparison(&mut self) -> String {
        let path = self.path();
        let operator = self.random.one_of(&["=", "=", "=", "!=", "<", "<=", ">", ">="]);
        let scalar = match path {
            "c.pk" if self.random.one_in(5) => self.random.one_of(&LARGE[..3]).to_owned(),
            "c.pk" => format!("\"p{}\"", self.random.below(6)),
            "c.t" => format!("\"t{}\"", self.random.below(3)),
            _ => self.scalar(),
        };
        format!("{path} {operator} {scalar}")
    }

    fn predicate(&mut self) -> String {
        let path = self.path();
        match self.random.below(25) {
            0..=9 => self.comparison(),
            10 => {
                let list: Vec<_> = (0..1 + self.random.below(4)).map(|_| self.scalar()).collect();
                let not = self.random.one_of(&["", "NOT "]);
                format!("{path} {not}IN ({})", list.join(", "))
            }
            11 => format!("({path} BETWEEN {} AND {})", self.scalar(), self.scalar()),
            12 => format!(
                "STARTSWITH({path}, \"{}\")",
                self.random.one_of(&["s", "a long", "s1", ""])
            ),
            13 => format!(
                "STARTSWITH({path}, \"{}\")",
                &LONG[..self.random.one_of(&[63, 64, 65, 70])]
            ),
            14 => format!("{path} LIKE \"{}\"", self.random.one_of(&["s%", "%1", "s_", "a long%"])),
            15 => {
                let function = self.random.one_of(&[
                    "IS_DEFINED",
                    "IS_NUMBER",
                    "IS_STRING",
                    "IS_BOOL",
                    "IS_NULL",
                    "IS_ARRAY",
                    "IS_OBJECT",
                    "IS_PRIMITIVE",
                    "IS_INTEGER",
                ]);
                format!("{function}({path})")
            }
            16 => format!("ARRAY_CONTAINS(c.tags, {})", self.scalar()),
            17 => format!("ARRAY_CONTAINS(c.tags, {{\"b\": {}}}, true)", self.scalar()),
            18 => format!("EXISTS(SELECT VALUE t FROM t IN c.tags WHERE t = {})", self.scalar()),
            19 => format!("EXISTS(SELECT VALUE t FROM t IN c.tags WHERE t.b > {})", self.scalar()),
            20 => format!("CONTAINS({path}, \"{}\")", self.random.one_of(&["1", "only", "s"])),
            21 if self.random.one_in(2) => self.time_or_chance(path),
            21 => format!("{path} = {}", self.value(0)),
            22 => self
                .random
                .one_of(&[
                    "c.n % 2 = 0",
                    "LENGTH(c.s) > 2",
                    "UPPER(c.s) = \"S1\"",
                    "c.n = c.z",
                    "ABS(c.n) > 3",
                    "c.n + 1 > 4",
                    "TOSTRING(c.n) = \"3\"",
                    "c.n ?? 5 = 5",
                    "c.n - 1 = 9007199254740992",
                    "c.n % 10 = 7",
                    "c.a.b IN (c.n, 9007199254740993)",
                ])
                .to_owned(),
            23 => {
                // What composite indexes are for.
                let (path, operator) =
                    (self.random.one_of(&["c.n", "c.s"]), self.random.one_of(&["<", ">="]));
                format!(
                    "c.t = \"t{}\" AND {path} {operator} {}",
                    self.random.below(3),
                    self.scalar()
                )
            }
            _ => path.to_owned(),
        }
    }

    /// Dates, the time and chance, in such a way that the answer is certain.
    fn time_or_chance(&mut self, path: &str) -> String {
        match self.random.below(9) {
            0 => format!("{path} < NOW()"),
            1 => "c.s >= AGO('mm', 8)".to_owned(),
            2 => "DATETIMETOTICKS(c.s) < GETCURRENTTICKSSTATIC()".to_owned(),
            3 => "DATETIMEDIFF('dd', c.s, NOW()) > 100".to_owned(),
            4 => format!("YEAR(c.s) = {}", self.random.one_of(&["2022", "2023", "2024"])),
            5 => format!("RAND() < 2 AND {path} > {}", self.scalar()),
            6 => format!("{path} = IIF(RAND() < 0, 0, {})", self.scalar()),
            7 => "GETCURRENTTIMESTAMP() > c.n".to_owned(),
            _ => format!("IS_DATETIME({path})"),
        }
    }

    fn condition(&mut self, depth: u32) -> String {
        if depth > 2 {
            return self.predicate();
        }
        let part = |generator: &mut Self| format!("({})", generator.condition(depth + 1));
        match self.random.below(10) {
            0 | 1 => format!("{} AND {}", part(self), part(self)),
            2 => format!("{} AND {} AND {}", part(self), part(self), part(self)),
            3 => format!("{} OR {}", part(self), part(self)),
            4 => format!("NOT {}", part(self)),
            _ => self.predicate(),
        }
    }

    fn filter(&mut self) -> String {
        if self.random.one_in(4) { String::new() } else { format!(" WHERE {}", self.condition(0)) }
    }

    fn projection(&mut self) -> String {
        match self.random.below(8) {
            0 | 1 => "*".to_owned(),
            2 => "VALUE c".to_owned(),
            3 => format!("VALUE {}", self.path()),
            4 => "c.id, c.n".to_owned(),
            5 => "c.id, c.a.b AS x, c.t".to_owned(),
            6 => format!("{} AS x, {} AS y", self.path(), self.path()),
            _ => "VALUE {\"i\": c.id, \"k\": [c.n, c.s]}".to_owned(),
        }
    }

    /// A window for a query; empty mostly.
    fn window(&mut self) -> (String, String) {
        match self.random.below(6) {
            0 => (format!("TOP {} ", self.random.below(12)), String::new()),
            1 => (
                String::new(),
                format!(" OFFSET {} LIMIT {}", self.random.below(6), self.random.below(12)),
            ),
            _ => Default::default(),
        }
    }

    /// A query and what is known of its answer.
    pub(crate) fn query(&mut self) -> (String, Shape) {
        let filter = self.filter();
        match self.random.below(12) {
            0..=3 => {
                let (top, end) = self.window();
                let text = format!("SELECT {top}{} FROM c{filter}{end}", self.projection());
                (text, Shape { sequence: true, ..Shape::default() })
            }
            4..=6 => self.ordered(&filter),
            7 => {
                let (top, end) = self.window();
                let join_filter = match self.random.below(4) {
                    0 => format!(" WHERE t = {}", self.scalar()),
                    1 => format!(" WHERE t.b = {} AND {}", self.scalar(), self.predicate()),
                    _ => filter,
                };
                let text = format!(
                    "SELECT {top}VALUE [c.id, t] FROM c JOIN t IN c.tags{join_filter}{end}"
                );
                (text, Shape { sequence: true, ..Shape::default() })
            }
            8 => self.distinct(&filter),
            9 => self.grouped(&filter),
            10 => {
                let aggregates = self.aggregates();
                let shape = Shape { sequence: true, ..Shape::default() };
                (format!("SELECT {aggregates} FROM c{filter}"), shape)
            }
            _ => self.nested(&filter),
        }
    }

    fn ordered(&mut self, filter: &str) -> (String, Shape) {
        let (keys, descending) = self.random.one_of(&[
            ("c.n", false),
            ("c.n DESC", true),
            ("c.s", false),
            ("c.s DESC", true),
            ("c.t", false),
            ("c.a.b", false),
            ("c.m DESC", true),
            ("c.id", false),
            ("c._ts DESC", true),
            ("c.low", false),
            ("c.pair.b DESC", true),
            ("c.t, c.n", false),
            ("c.t DESC, c.n DESC", true),
            ("c.s, c.n DESC", false),
            ("c.n DESC, c.s DESC", true),
            ("c.s DESC, c.n", true),
            ("c.n, c.s", false),
        ]);
        let (top, end) = self.window();
        let projection = self.projection();
        let distinct = if self.random.one_in(10) { "DISTINCT " } else { "" };
        let join = if self.random.one_in(10) { " JOIN t IN c.tags" } else { "" };
        let projection = if join.is_empty() || projection != "*" { projection } else { "t".into() };
        let text =
            format!("SELECT {distinct}{top}{projection} FROM c{join}{filter} ORDER BY {keys}{end}");
        (text, Shape { ordered: true, descending, sequence: true, ..Shape::default() })
    }

    fn distinct(&mut self, filter: &str) -> (String, Shape) {
        let (top, end) = self.window();
        let projection = self.random.one_of(&[
            "VALUE c.n",
            "VALUE c.s",
            "c.t",
            "c.t, c.n",
            "VALUE c.tags",
            "VALUE c.m",
            "c.pk",
            "c.a.b",
        ]);
        let without_window = format!("SELECT DISTINCT {projection} FROM c{filter}");
        let text = format!("SELECT DISTINCT {top}{projection} FROM c{filter}{end}");
        let windowed = text != without_window;
        (text, Shape { windowed, without_window, ..Shape::default() })
    }

    fn aggregate(&mut self) -> String {
        let path = self.path();
        match self.random.below(8) {
            0 | 1 => "COUNT(1)".to_owned(),
            2 => format!("COUNT({path})"),
            3 => format!("SUM({})", self.random.one_of(&["c.n", "c.z", "c.a.b"])),
            4 => format!("AVG({})", self.random.one_of(&["c.n", "c.z", "c.a.b"])),
            5 => format!("MIN({path})"),
            6 => format!("MAX({path})"),
            _ => format!("COUNTIF({path} = 3)"),
        }
    }

    fn aggregates(&mut self) -> String {
        match self.random.below(4) {
            0 => format!("VALUE {}", self.aggregate()),
            1 => format!("{} AS x, {} AS y", self.aggregate(), self.aggregate()),
            2 => format!("VALUE [{}]", self.aggregate()),
            _ => self
                .random
                .one_of(&[
                    "VALUE MAKELIST(c.n)",
                    "VALUE COUNT(1)",
                    "VALUE MIN(c.n)",
                    "VALUE MAX(c.s)",
                ])
                .to_owned(),
        }
    }

    fn grouped(&mut self, filter: &str) -> (String, Shape) {
        let (top, end) = self.window();
        let keys = self.random.one_of(&["c.t", "c.n", "c.s", "c.pk", "c.m", "c.t, c.pk", "c.a.b"]);
        let aggregate = self.aggregate();
        let without_window =
            format!("SELECT {keys}, {aggregate} AS x FROM c{filter} GROUP BY {keys}");
        let text =
            format!("SELECT {top}{keys}, {aggregate} AS x FROM c{filter} GROUP BY {keys}{end}");
        let windowed = text != without_window;
        (text, Shape { windowed, without_window, ..Shape::default() })
    }

    fn nested(&mut self, filter: &str) -> (String, Shape) {
        let inner = format!("SELECT c.id, c.n, c.t FROM c{filter}");
        let shape = Shape { sequence: true, ..Shape::default() };
        match self.random.below(4) {
            0 => (format!("SELECT VALUE x.id FROM ({inner}) x WHERE x.n > 2"), shape),
            1 => (format!("SELECT VALUE COUNT(1) FROM ({inner}) x"), shape),
            2 => (format!("SELECT TOP 5 x.t FROM ({inner}) x"), shape),
            _ => {
                let inner = format!("SELECT DISTINCT c.t FROM c{filter}");
                (format!("SELECT VALUE COUNT(1) FROM ({inner}) x"), shape)
            }
        }
    }
}
