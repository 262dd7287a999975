//! The JSON that `STRINGTO…` read. It is looser than JSON in a few points, which are the service's:
//! numbers may begin with zeros, one comma may follow the whole text, raw control characters may stand
//! in strings, a name may be there twice (the last counts), and half a surrogate pair is U+FFFD.

use armilla_model::{Number, Object, Value};

/// Deepest nesting that is read.
const DEPTH_MAX: usize = 128;

/// The value of the whole text; nothing when it is not such JSON.
pub(super) fn value_of(text: &str) -> Option<Value> {
    let mut reader = Reader { text, at: 0, depth: 0 };
    reader.skip_space();
    let value = reader.value()?;
    reader.skip_space();
    if reader.peek() == Some(b',') {
        reader.at += 1;
        reader.skip_space();
    }
    reader.peek().is_none().then_some(value)
}

struct Reader<'t> {
    text: &'t str,
    at: usize,
    depth: usize,
}

impl Reader<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip_space(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.peek() {
            self.at += 1;
        }
    }

    fn take(&mut self, word: &str) -> Option<()> {
        self.text[self.at..].starts_with(word).then(|| self.at += word.len())
    }

    fn value(&mut self) -> Option<Value> {
        match self.peek()? {
            b'n' => self.take("null").map(|()| Value::Null),
            b't' => self.take("true").map(|()| Value::Bool(true)),
            b'f' => self.take("false").map(|()| Value::Bool(false)),
            b'"' => self.string().map(Value::from),
            b'[' => self.array(),
            b'{' => self.object(),
            _ => self.number(),
        }
    }

    fn array(&mut self) -> Option<Value> {
        let mut elements = Vec::new();
        self.list(b']', |reader| {
            elements.push(reader.value()?);
            Some(())
        })?;
        Some(Value::array(elements))
    }

    fn object(&mut self) -> Option<Value> {
        let mut members = Object::new();
        self.list(b'}', |reader| {
            let name = (reader.peek()? == b'"').then(|| reader.string())??;
            reader.skip_space();
            reader.take(":")?;
            reader.skip_space();
            members.insert(name, reader.value()?);
            Some(())
        })?;
        Some(Value::object(members))
    }

    // What stands between brackets, with commas between.
    fn list(&mut self, end: u8, mut each: impl FnMut(&mut Self) -> Option<()>) -> Option<()> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return None;
        }
        self.at += 1;
        self.skip_space();
        let mut is_empty = true;
        while self.peek()? != end || !is_empty {
            each(self)?;
            is_empty = false;
            self.skip_space();
            match self.peek()? {
                b',' => self.at += 1,
                byte if byte == end => break,
                _ => return None,
            }
            self.skip_space();
        }
        self.at += 1;
        self.depth -= 1;
        Some(())
    }

    // An integer as long as it is written like one, a fraction of zeros included, and fits.
    fn number(&mut self) -> Option<Value> {
        let rest = &self.text[self.at..];
        let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
        let sign = usize::from(rest.starts_with('-'));
        let whole = sign + digits(&rest[sign..]);
        let mut end = whole;
        let mut is_integer = true;
        if rest[end..].starts_with('.') {
            let fraction = digits(&rest[end + 1..]);
            is_integer = rest[end + 1..][..fraction].bytes().all(|digit| digit == b'0');
            end = (fraction > 0).then_some(end + 1 + fraction)?;
        }
        if rest[end..].starts_with(['e', 'E']) {
            let signed = usize::from(rest[end + 1..].starts_with(['+', '-']));
            let exponent = digits(&rest[end + 1 + signed..]);
            is_integer = false;
            end = (exponent > 0).then_some(end + 1 + signed + exponent)?;
        }
        if whole == sign {
            return None;
        }
        self.at += end;
        if let Some(int) = rest[..whole].parse().ok().filter(|_| is_integer) {
            return Some(Value::Number(Number::Int(int)));
        }
        let float: f64 = rest[..end].parse().ok()?;
        float.is_finite().then(|| Value::from(float))
    }

    fn string(&mut self) -> Option<String> {
        self.at += 1;
        let mut text = String::new();
        loop {
            let rest = &self.text[self.at..];
            let plain = rest.find(['"', '\\'])?;
            text.push_str(&rest[..plain]);
            self.at += plain + 1;
            if rest.as_bytes()[plain] == b'"' {
                return Some(text);
            }
            let escape = self.peek()?;
            self.at += 1;
            text.push(match escape {
                b'"' | b'\\' | b'/' => char::from(escape),
                b'b' => '\u{8}',
                b'f' => '\u{c}',
                b'n' => '\n',
                b'r' => '\r',
                b't' => '\t',
                b'u' => self.character()?,
                _ => return None,
            });
        }
    }

    // The character of an escape, of two when they are a pair.
    fn character(&mut self) -> Option<char> {
        let first = self.unit()?;
        let pair = 0xd800..0xdc00;
        if pair.contains(&first) && self.text[self.at..].starts_with("\\u") {
            let before = self.at;
            self.at += 2;
            let second = self.unit()?;
            if (0xdc00..0xe000).contains(&second) {
                return char::from_u32(0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00));
            }
            self.at = before;
        }
        Some(char::from_u32(first).unwrap_or(char::REPLACEMENT_CHARACTER))
    }

    fn unit(&mut self) -> Option<u32> {
        let digits = self.text.get(self.at..self.at + 4)?;
        let is_hex = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        self.at += 4;
        is_hex.then(|| u32::from_str_radix(digits, 16).ok())?
    }
}
