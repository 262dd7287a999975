//! Text to tokens, one at a time.
//!
//! The lexer never fails: a character that starts no token, or a malformed string or number,
//! becomes a token of its own that no rule of the grammar accepts, so the parser reports the first
//! error of the text and not the first error of the lexer.

use crate::error::Location;
use armilla_model::Number;
use std::sync::Arc;

/// Reserved words, recognised in any letter case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the variants are the words")]
pub enum Keyword {
    All,
    And,
    Array,
    As,
    Asc,
    Between,
    By,
    Desc,
    Distinct,
    Escape,
    Exists,
    First,
    From,
    Group,
    In,
    Join,
    Last,
    Left,
    Like,
    Limit,
    Not,
    Offset,
    Or,
    Order,
    Rank,
    Right,
    Select,
    Top,
    Value,
    Where,
    /// A word that no clause uses and that is no name all the same.
    Reserved,
}

/// All words, by the alphabet: those with the same first letter stand together.
const KEYWORDS: [(&str, Keyword); 50] = [
    ("ALL", Keyword::All),
    ("AND", Keyword::And),
    ("ARRAY", Keyword::Array),
    ("AS", Keyword::As),
    ("ASC", Keyword::Asc),
    ("BETWEEN", Keyword::Between),
    ("BY", Keyword::By),
    ("CASE", Keyword::Reserved),
    ("CAST", Keyword::Reserved),
    ("CONVERT", Keyword::Reserved),
    ("CROSS", Keyword::Reserved),
    ("DESC", Keyword::Desc),
    ("DISTINCT", Keyword::Distinct),
    ("ELSE", Keyword::Reserved),
    ("END", Keyword::Reserved),
    ("ESCAPE", Keyword::Escape),
    ("EXISTS", Keyword::Exists),
    ("FIRST", Keyword::First),
    ("FOR", Keyword::Reserved),
    ("FROM", Keyword::From),
    ("GROUP", Keyword::Group),
    ("HAVING", Keyword::Reserved),
    ("IN", Keyword::In),
    ("INNER", Keyword::Reserved),
    ("INSERT", Keyword::Reserved),
    ("INTO", Keyword::Reserved),
    ("IS", Keyword::Reserved),
    ("JOIN", Keyword::Join),
    ("LAST", Keyword::Last),
    ("LEFT", Keyword::Left),
    ("LIKE", Keyword::Like),
    ("LIMIT", Keyword::Limit),
    ("NOT", Keyword::Not),
    ("OFFSET", Keyword::Offset),
    ("ON", Keyword::Reserved),
    ("OR", Keyword::Or),
    ("ORDER", Keyword::Order),
    ("OUTER", Keyword::Reserved),
    ("OVER", Keyword::Reserved),
    ("RANK", Keyword::Rank),
    ("RIGHT", Keyword::Right),
    ("SELECT", Keyword::Select),
    ("SET", Keyword::Reserved),
    ("THEN", Keyword::Reserved),
    ("TOP", Keyword::Top),
    ("UPDATE", Keyword::Reserved),
    ("VALUE", Keyword::Value),
    ("WHEN", Keyword::Reserved),
    ("WHERE", Keyword::Where),
    ("WITH", Keyword::Reserved),
];

/// Where the words with a first letter begin, and behind Z where they end. Most words of a query are names,
/// and of most letters there are few words.
const FIRST_LETTERS: [usize; 27] = {
    let mut starts = [KEYWORDS.len(); 27];
    let mut at = KEYWORDS.len();
    let mut letter = 26;
    while letter > 0 {
        letter -= 1;
        while at > 0 && KEYWORDS[at - 1].0.as_bytes()[0] >= b'A' + letter as u8 {
            at -= 1;
        }
        starts[letter] = at;
    }
    starts
};

/// The longest of them.
const KEYWORD_LENGTH_MAX: usize = 8;

impl Keyword {
    /// The keyword that is written so, in any letter case.
    pub fn lookup(word: &str) -> Option<Self> {
        if word.len() > KEYWORD_LENGTH_MAX {
            return None;
        }
        let first = word.as_bytes().first()?.to_ascii_uppercase();
        let letter = usize::from(first.checked_sub(b'A').filter(|letter| *letter < 26)?);
        let candidates = &KEYWORDS[FIRST_LETTERS[letter]..FIRST_LETTERS[letter + 1]];
        let found = candidates.iter().find(|(text, _)| text.eq_ignore_ascii_case(word));
        found.map(|(_, keyword)| *keyword)
    }

    /// True for words that are names wherever a name is expected.
    pub fn is_contextual(self) -> bool {
        matches!(self, Self::All | Self::First | Self::Last | Self::Rank)
    }
}

/// Words with a meaning in lower case only.
pub const LITERAL_WORDS: [&str; 7] =
    ["true", "false", "null", "undefined", "udf", "NaN", "Infinity"];

/// What a token is.
#[derive(Clone, Debug, PartialEq)]
pub enum TokenKind {
    /// A reserved word.
    Keyword(Keyword),
    /// A name, or one of the [`LITERAL_WORDS`].
    Word,
    /// A string, unescaped.
    String(Arc<str>),
    /// A number.
    Number(Number),
    /// `@` and a name.
    Parameter,
    /// An operator or punctuation.
    Symbol(&'static str),
    /// A malformed string.
    BadString,
    /// A malformed number.
    BadNumber,
    /// A character that starts no token.
    BadCharacter,
    /// The end of the text.
    End,
}

/// A token and its place.
#[derive(Clone, Debug)]
pub struct Token<'t> {
    /// What it is.
    pub kind: TokenKind,
    /// How it is written.
    pub text: &'t str,
    /// Where it stands, in UTF-16 units.
    pub location: Location,
}

/// Longest first, so that `>>>` is not read as `>>` and `>`.
const SYMBOLS: [&str; 30] = [
    ">>>", "<<", ">>", "!=", "<>", "<=", ">=", "||", "??", "+", "-", "*", "/", "%", "&", "|", "^",
    "~", "=", "<", ">", "?", ":", ",", ".", "(", ")", "[", "]", "{",
];

/// Reads tokens from a text.
#[derive(Clone, Debug)]
pub struct Lexer<'t> {
    rest: &'t str,
    offset: u32,
}

impl<'t> Lexer<'t> {
    /// A lexer at the start of a text.
    pub fn new(text: &'t str) -> Self {
        Self { rest: text, offset: 0 }
    }

    /// The next token; `End` again and again at the end.
    pub fn next_token(&mut self) -> Token<'t> {
        self.skip_blanks();
        let (kind, length) = self.scan();
        self.take(kind, length)
    }

    fn scan(&self) -> (TokenKind, usize) {
        let mut characters = self.rest.chars();
        let Some(first) = characters.next() else { return (TokenKind::End, 0) };
        let second = characters.next();
        if is_word_start(first) {
            return scan_word(self.rest);
        }
        if first.is_ascii_digit() || (first == '.' && second.is_some_and(|c| c.is_ascii_digit())) {
            return scan_number(self.rest);
        }
        if first == '"' || first == '\'' {
            return scan_string(self.rest);
        }
        if first == '@' && second.is_some_and(is_word_start) {
            return (TokenKind::Parameter, 1 + word_length(&self.rest[1..]));
        }
        match SYMBOLS.iter().chain(&["}"]).find(|symbol| self.rest.starts_with(**symbol)) {
            Some(symbol) => (TokenKind::Symbol(symbol), symbol.len()),
            None => (TokenKind::BadCharacter, first.len_utf8()),
        }
    }

    fn take(&mut self, kind: TokenKind, length: usize) -> Token<'t> {
        let (text, rest) = self.rest.split_at(length);
        let start = self.offset;
        self.rest = rest;
        self.offset += utf16_length(text);
        Token { kind, text, location: Location { start, end: self.offset } }
    }

    fn skip_blanks(&mut self) {
        loop {
            let blanks = self.rest.len() - self.rest.trim_start_matches(is_blank).len();
            self.skip(blanks);
            if !self.rest.starts_with("--") {
                return;
            }
            self.skip(self.rest.find('\n').unwrap_or(self.rest.len()));
        }
    }

    fn skip(&mut self, length: usize) {
        let (skipped, rest) = self.rest.split_at(length);
        self.offset += utf16_length(skipped);
        self.rest = rest;
    }
}

/// True when a text can be written as a name without brackets: after a dot, or as an alias.
pub fn is_plain_name(text: &str) -> bool {
    let mut characters = text.chars();
    characters.next().is_some_and(is_word_start)
        && characters.all(is_word_part)
        && !LITERAL_WORDS.contains(&text)
        && Keyword::lookup(text).is_none_or(Keyword::is_contextual)
}

/// True for `@` and a name.
pub fn is_parameter(text: &str) -> bool {
    text.strip_prefix('@').is_some_and(|name| {
        name.chars().next().is_some_and(is_word_start) && name.chars().all(is_word_part)
    })
}

fn utf16_length(text: &str) -> u32 {
    let units = if text.is_ascii() { text.len() } else { text.encode_utf16().count() };
    u32::try_from(units).unwrap_or(u32::MAX)
}

/// Unicode's white space, and U+180E, which was some when the language was made.
fn is_blank(character: char) -> bool {
    character.is_whitespace() || character == '\u{180E}'
}

fn is_word_start(character: char) -> bool {
    character == '_'
        || character.is_ascii_alphabetic()
        || (!character.is_ascii() && character.is_alphabetic())
}

fn is_word_part(character: char) -> bool {
    is_word_start(character) || character.is_numeric()
}

fn word_length(text: &str) -> usize {
    text.find(|character| !is_word_part(character)).unwrap_or(text.len())
}

fn scan_word(text: &str) -> (TokenKind, usize) {
    let length = word_length(text);
    let kind = Keyword::lookup(&text[..length]).map_or(TokenKind::Word, TokenKind::Keyword);
    (kind, length)
}

fn scan_number(text: &str) -> (TokenKind, usize) {
    let length = number_length(text);
    let behind = word_length(&text[length..]);
    if behind > 0 {
        return (TokenKind::BadNumber, length + behind);
    }
    match read_number(&text[..length]) {
        Some(number) => (TokenKind::Number(number), length),
        None => (TokenKind::BadNumber, length),
    }
}

fn digits(text: &str) -> usize {
    text.bytes().take_while(u8::is_ascii_digit).count()
}

fn number_length(text: &str) -> usize {
    if let Some(hex) = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        return 2 + hex.bytes().take_while(u8::is_ascii_hexdigit).count();
    }
    let mut length = digits(text);
    if text[length..].starts_with('.') {
        length += 1 + digits(&text[length + 1..]);
    }
    let exponent = &text[length..];
    if exponent.starts_with(['e', 'E']) {
        let sign = usize::from(exponent[1..].starts_with(['+', '-']));
        let count = digits(&exponent[1 + sign..]);
        if count > 0 {
            length += 1 + sign + count;
        }
    }
    length
}

fn read_number(text: &str) -> Option<Number> {
    if let Some(hex) = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        // 64 bits as they are: from 2^63 on the number is negative.
        return u64::from_str_radix(hex, 16).ok().map(|bits| Number::Int(bits as i64));
    }
    if let Ok(int) = text.parse::<i64>() {
        return Some(Number::Int(int));
    }
    text.parse::<f64>().ok().filter(|float| float.is_finite()).map(Number::Float)
}

fn scan_string(text: &str) -> (TokenKind, usize) {
    let quote = char::from(text.as_bytes()[0]);
    let mut value = String::new();
    let mut at = 1;
    while let Some(character) = text[at..].chars().next() {
        if character == quote {
            return (TokenKind::String(value.into()), at + 1);
        }
        if character != '\\' {
            value.push(character);
            at += character.len_utf8();
            continue;
        }
        let Some(escaped) = text[at + 1..].chars().next() else { break };
        match unescape(&text[at..], escaped) {
            Some((character, length)) => {
                value.push(character);
                at += length;
            }
            // The token ends behind what is no hexadecimal digit.
            None => {
                let digits = text[at + 2..].bytes().take_while(u8::is_ascii_hexdigit).count();
                let end = at + 2 + digits;
                return (
                    TokenKind::BadString,
                    end + text[end..].chars().next().map_or(0, char::len_utf8),
                );
            }
        }
    }
    (TokenKind::BadString, text.len())
}

/// Reads one escape; two `\u` escapes when they are a surrogate pair. A lone surrogate, which no
/// string can hold, becomes U+FFFD. A character without a meaning of its own stands for itself.
fn unescape(text: &str, escaped: char) -> Option<(char, usize)> {
    let character = match escaped {
        'b' => '\u{8}',
        'f' => '\u{c}',
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        'u' => return unescape_unicode(text),
        other => other,
    };
    Some((character, 1 + escaped.len_utf8()))
}

fn unescape_unicode(text: &str) -> Option<(char, usize)> {
    let first = hex_unit(text)?;
    if let Some(character) = char::from_u32(first) {
        return Some((character, 6));
    }
    let second = text.get(6..).filter(|rest| rest.starts_with("\\u")).and_then(hex_unit);
    if let Some(second) = second
        && (0xD800..0xDC00).contains(&first)
        && (0xDC00..0xE000).contains(&second)
    {
        let joined = 0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00);
        return char::from_u32(joined).map(|character| (character, 12));
    }
    Some((char::REPLACEMENT_CHARACTER, 6))
}

fn hex_unit(text: &str) -> Option<u32> {
    let hex = text.get(2..6)?;
    if !hex.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    u32::from_str_radix(hex, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> Vec<TokenKind> {
        let mut lexer = Lexer::new(text);
        let mut kinds = Vec::new();
        loop {
            match lexer.next_token().kind {
                TokenKind::End => return kinds,
                kind => kinds.push(kind),
            }
        }
    }

    #[test]
    fn numbers_in_all_their_spellings() {
        for (text, value) in
            [("5.", 5.0), (".5", 0.5), ("0x1F", 31.0), ("1.5E-2", 0.015), ("1e3", 1000.0)]
        {
            assert_eq!(kinds(text), [TokenKind::Number(Number::Float(value))], "{text}");
        }
        assert_eq!(kinds("0xffffffffffffffff"), [TokenKind::Number(Number::Int(-1))]);
        assert_eq!(kinds("0x10000000000000000"), [TokenKind::BadNumber]);
        assert_eq!(kinds("12a"), [TokenKind::BadNumber]);
        assert_eq!(kinds("1e400"), [TokenKind::BadNumber]);
        assert_eq!(kinds("0x"), [TokenKind::BadNumber]);
    }

    #[test]
    fn strings_and_escapes() {
        assert_eq!(kinds(r"'it\'s'"), [TokenKind::String("it's".into())]);
        assert_eq!(kinds(r#""\u0041\ud83d\ude00""#), [TokenKind::String("A😀".into())]);
        assert_eq!(kinds("'abc"), [TokenKind::BadString]);
        assert_eq!(kinds(r"'\x"), [TokenKind::BadString]);
        assert_eq!(kinds("'a\nb\tc'"), [TokenKind::String("a\nb\tc".into())]);
        assert_eq!(kinds(r"'\d+\%\é'"), [TokenKind::String("d+%é".into())]);
        assert_eq!(kinds(r"'\u12' 1")[0], TokenKind::BadString);
        assert_eq!(Lexer::new(r"'\u12' 1").next_token().text, r"'\u12'");
    }

    #[test]
    fn places_are_counted_in_utf16() {
        let mut lexer = Lexer::new("'😀' -- c\n x");
        assert_eq!(lexer.next_token().location.end, 4);
        let token = lexer.next_token();
        assert_eq!((token.text, token.location.start), ("x", 11));
    }

    #[test]
    fn longest_symbol_wins() {
        assert_eq!(
            kinds("a>>>b<>c"),
            [
                TokenKind::Word,
                TokenKind::Symbol(">>>"),
                TokenKind::Word,
                TokenKind::Symbol("<>"),
                TokenKind::Word
            ]
        );
    }

    #[test]
    fn plain_names() {
        assert!(is_plain_name("first") && is_plain_name("_rid"));
        assert!(!is_plain_name("order") && !is_plain_name("1st") && !is_plain_name("null"));
        assert!(!is_plain_name("") && !is_plain_name("end") && !is_plain_name("left"));
        assert!(is_plain_name("x²") && is_plain_name("union"));
    }
}
