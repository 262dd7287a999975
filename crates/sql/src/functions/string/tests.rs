//! The documented examples of the string functions, and their edges.

use super::*;
use crate::functions::tests::{check, evaluate};

#[test]
fn comparing() {
    check(&[
        ("CONTAINS", r#"["AdventureWorks","Adventure"]"#, "true"),
        ("CONTAINS", r#"["AdventureWorks","adventure"]"#, "false"),
        ("CONTAINS", r#"["AdventureWorks","works",true]"#, "true"),
        ("CONTAINS", r#"["abc",""]"#, "true"),
        ("CONTAINS", r#"["abc","a",1]"#, "undefined"),
        ("CONTAINS", r#"[123,"1"]"#, "undefined"),
        ("STARTSWITH", r#"["AdventureWorks","Works"]"#, "false"),
        ("STARTSWITH", r#"["AdventureWorks","adventure",true]"#, "true"),
        ("STARTSWITH", r#"["abc",""]"#, "true"),
        ("ENDSWITH", r#"["AdventureWorks","works"]"#, "false"),
        ("ENDSWITH", r#"["AdventureWorks","works",true]"#, "true"),
        ("STRINGEQUALS", r#"["AdventureWorks","adventureworks"]"#, "false"),
        ("STRINGEQUALS", r#"["ÉtÉ","été",true]"#, "true"),
        ("STRINGEQUALS", r#"["a",1]"#, "undefined"),
    ]);
}

#[test]
fn containing_any_or_all() {
    let day = Value::from("Have a nice day!");
    let run = |name: &str, parts: &[Option<&str>]| {
        let mut arguments = vec![day.clone()];
        arguments.extend(parts.iter().map(|part| part.map_or(Value::Undefined, Value::from)));
        evaluate(name, &arguments).to_string()
    };
    let (have, shout, had) = (Some("have"), Some("NICE"), Some("had"));
    assert_eq!(run("CONTAINS_ANY_CS", &[have, Some("nice")]), "true");
    assert_eq!(run("CONTAINS_ANY_CS", &[shout]), "false");
    assert_eq!(run("CONTAINS_ANY_CS", &[None, had]), "undefined");
    assert_eq!(run("CONTAINS_ANY_CS", &[None, Some("nice")]), "true");
    assert_eq!(run("CONTAINS_ANY_CI", &[shout]), "true");
    assert_eq!(run("CONTAINS_ALL_CS", &[have, Some("nice")]), "false");
    assert_eq!(run("CONTAINS_ALL_CS", &[None, Some("nice")]), "undefined");
    assert_eq!(run("CONTAINS_ALL_CS", &[None, had]), "false");
    assert_eq!(run("CONTAINS_ALL_CI", &[have, shout]), "true");
    assert_eq!(run("CONTAINS_ALL_CI", &[had, shout]), "false");
    assert_eq!(evaluate("CONTAINS_ANY_CI", &[1.into(), "a".into()]).to_string(), "undefined");
}

#[test]
fn finding() {
    check(&[
        ("INDEX_OF", r#"["AdventureWorks","s"]"#, "13"),
        ("INDEX_OF", r#"["AdventureWorks","Cosmos"]"#, "-1"),
        ("INDEX_OF", r#"["AdventureWorks","Works",5]"#, "9"),
        ("INDEX_OF", r#"["AdventureWorks","Adventure",5]"#, "-1"),
        ("INDEX_OF", r#"["abcabc","c",3]"#, "5"),
        ("INDEX_OF", r#"["abc",""]"#, "0"),
        ("INDEX_OF", r#"["abc","",9]"#, "-1"),
        ("INDEX_OF", r#"["abc","c",-1]"#, "-1"),
        ("INDEX_OF", r#"["abc",1]"#, "undefined"),
        ("INDEX_OF", r#"["😀é😀b","b"]"#, "5"),
        ("INDEX_OF", r#"["😀b😀b","😀",1]"#, "3"),
        ("LASTINDEXOF", r#"["abcdeabc","abc"]"#, "5"),
        ("LASTINDEXOF", r#"["abcdeabc","abc",6]"#, "0"),
        ("LASTINDEXOF", r#"["abcdeabc","abc",8]"#, "5"),
        ("LASTINDEXOF", r#"["abcdeabc","abc",1]"#, "-1"),
        ("LASTINDEXOF", r#"["abcdeabc","fg"]"#, "-1"),
        ("LASTINDEXOF", r#"["a😀a","a",2]"#, "0"),
        ("LASTINDEXOF", r#"["a😀a","a",3]"#, "3"),
        ("LASTINDEXOF", r#"["a😀a","😀",1]"#, "-1"),
        ("LASTINDEXOF", r#"["a😀a","😀",2]"#, "1"),
        ("LASTINDEXOF", r#"["abc","a",-1]"#, "-1"),
        ("LENGTH", r#"["héllo"]"#, "5"),
        ("LENGTH", r#"["a😀"]"#, "2"),
        ("LENGTH", r#"[""]"#, "0"),
        ("LENGTH", "[null]", "undefined"),
        ("REGEXMATCH", r#"["abcd","ABC"]"#, "false"),
        ("REGEXMATCH", r#"["abcd","ABC","i"]"#, "true"),
        ("REGEXMATCH", r#"["abcd","ab c","x"]"#, "true"),
        ("REGEXMATCH", r#"["salt3824908","salt{1}"]"#, "true"),
        ("REGEXMATCH", r#"["abcd","abc","q"]"#, "undefined"),
        ("REGEXMATCH", r#"[5,"5"]"#, "undefined"),
    ]);
}

#[test]
fn cutting() {
    check(&[
        ("LEFT", r#"["AdventureWorks",0]"#, r#""""#),
        ("LEFT", r#"["AdventureWorks",5]"#, r#""Adven""#),
        ("LEFT", r#"["AdventureWorks",100]"#, r#""AdventureWorks""#),
        ("LEFT", r#"["abc",-1]"#, r#""""#),
        ("LEFT", r#"["abc",1.5]"#, "undefined"),
        ("RIGHT", r#"["AdventureWorks",5]"#, r#""Works""#),
        ("RIGHT", r#"["AdventureWorks",100]"#, r#""AdventureWorks""#),
        ("RIGHT", r#"["abc",0]"#, r#""""#),
        ("RIGHT", "[1,2]", "undefined"),
        ("RIGHT", r#"["a😀",2]"#, r#""😀""#),
        ("SUBSTRING", r#"["AdventureWorks",9,5]"#, r#""Works""#),
        ("SUBSTRING", r#"["AdventureWorks",0,-1]"#, r#""""#),
        ("SUBSTRING", r#"["abc",1,100]"#, r#""bc""#),
        ("SUBSTRING", r#"["abc",3,1]"#, r#""""#),
        ("SUBSTRING", r#"["abc",-1,2]"#, r#""""#),
        ("SUBSTRING", r#"["abc",0.5,2]"#, "undefined"),
        ("SUBSTRING", r#"["a😀b",1,2]"#, r#""😀""#),
        ("SUBSTRING", r#"["abc",1,9223372036854775807]"#, r#""bc""#),
        ("TRIM", r#"["   AdventureWorks   "]"#, r#""AdventureWorks""#),
        ("TRIM", r#"["---AdventureWorks---"]"#, r#""---AdventureWorks---""#),
        ("TRIM", r#"["-- AdventureWorks --","-"]"#, r#"" AdventureWorks ""#),
        ("TRIM", r#"["-_-AdventureWorks-_-","-_"]"#, r#""AdventureWorks""#),
        ("TRIM", "[1]", "undefined"),
        ("TRIM", r#"["a",1]"#, "undefined"),
        ("LTRIM", r#"["  AdventureWorks  "]"#, r#""AdventureWorks  ""#),
        ("LTRIM", r#"["AdventureWorks","Adventure"]"#, r#""Works""#),
        ("LTRIM", r#"["AdventureWorks","Works"]"#, r#""AdventureWorks""#),
        ("LTRIM", r#"["AdventureWorks",""]"#, r#""AdventureWorks""#),
        ("RTRIM", r#"["  AdventureWorks  "]"#, r#""  AdventureWorks""#),
        ("RTRIM", r#"["AdventureWorks","Works"]"#, r#""Adventure""#),
        ("RTRIM", r#"["AdventureWorks","AdventureWorks"]"#, r#""""#),
    ]);
}

#[test]
fn building() {
    check(&[
        ("CONCAT", r#"["a","b","c","d"]"#, r#""abcd""#),
        ("CONCAT", r#"["a",1]"#, "undefined"),
        ("LOWER", r#"["ADVENTURE_WORKS"]"#, r#""adventure_works""#),
        ("LOWER", "[true]", "undefined"),
        ("UPPER", r#"["straat é"]"#, r#""STRAAT É""#),
        ("REPLACE", r#"["AdventureWorksLT","LT","LT2"]"#, r#""AdventureWorksLT2""#),
        ("REPLACE", r#"["aaa","a","bb"]"#, r#""bbbbbb""#),
        ("REPLACE", r#"["abc","x","y"]"#, r#""abc""#),
        ("REPLACE", r#"["abc","","y"]"#, "undefined"),
        ("REPLICATE", r#"["Cosmic",3]"#, r#""CosmicCosmicCosmic""#),
        ("REPLICATE", r#"["ab",0]"#, r#""""#),
        ("REPLICATE", r#"["ab",-1]"#, "undefined"),
        ("REPLICATE", r#"["ab",1.5]"#, "undefined"),
        ("REPLICATE", r#"["a",10001]"#, "undefined"),
        ("REPLICATE", r#"["a",9223372036854775807]"#, "undefined"),
        ("REPLICATE", r#"["",9223372036854775807]"#, r#""""#),
        ("REVERSE", r#"["AdventureWorks"]"#, r#""skroWerutnevdA""#),
        ("REVERSE", r#"["a😀é"]"#, r#""é😀a""#),
        ("REVERSE", "[12]", "undefined"),
        ("STRINGJOIN", r#"[["Iropa","Mountain","Bike"]," "]"#, r#""Iropa Mountain Bike""#),
        ("STRINGJOIN", r#"[[],","]"#, r#""""#),
        ("STRINGJOIN", r#"[["a",1],","]"#, "undefined"),
        ("STRINGSPLIT", r#"["xenmoun mountain bike","moun"]"#, r#"["xen"," ","tain bike"]"#),
        ("STRINGSPLIT", r#"["a,b,,c",","]"#, r#"["a","b","","c"]"#),
        ("STRINGSPLIT", r#"["Helmet",""]"#, r#"["Helmet"]"#),
        ("STRINGSPLIT", r#"["",""]"#, r#"[""]"#),
    ]);
    let most = evaluate("REPLICATE", &["😀".into(), 10_000.into()]);
    assert_eq!(most.as_str().map(|text| text.chars().count()), Some(REPLICATE_LENGTH_MAX));
    assert!(evaluate("REPLICATE", &["😀".into(), 10_001.into()]).is_undefined());
}

#[test]
fn results_are_bounded() {
    let long = Value::from("a".repeat(STRING_RESULT_MAX / 2 + 1));
    assert!(evaluate("CONCAT", &[long.clone(), long.clone()]).is_undefined());
    assert!(evaluate("REPLACE", &[long.clone(), "a".into(), "bb".into()]).is_undefined());
    assert!(evaluate("STRINGSPLIT", &[long.clone(), "a".into()]).is_undefined());
    let both = Value::array(vec![long.clone(), "b".into(), "c".into()]);
    assert!(evaluate("STRINGJOIN", &[both, long]).is_undefined());
}
