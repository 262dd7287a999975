//! Java's suite, class by class, in processes of their own: what one class leaves behind cannot change another. TestNG is started
//! here, with a listener of ours, because the suite's own runner hides which mode a test ran in.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::suites::{Site, Step};
use crate::Outcome;
use crate::{processes, workspace};

/// Packages of Java's own that the suite and its libraries look into, as its build file lists them.
const OPENED_PACKAGES: [&str; 13] = [
    "java.lang",
    "java.lang.invoke",
    "java.lang.reflect",
    "java.io",
    "java.net",
    "java.nio",
    "java.util",
    "java.util.concurrent",
    "java.util.concurrent.atomic",
    "sun.nio.ch",
    "sun.nio.cs",
    "sun.security.action",
    "sun.util.calendar",
];

/// Classes that take minutes: begun last they would keep one server busy while the others have nothing to do.
const LONG_CLASSES: [&str; 5] = [
    "CosmosItemWriteRetriesTest",
    "CosmosItemSerializerTest",
    "CosmosContainerChangeFeedTest",
    "CollectionCrudTest",
    "DocumentCrudTest",
];

/// What its description of the group has in place of classes.
const PACKAGES: (&str, &str) = ("<packages>", "</packages>");

/// Where the class path is kept for the processes.
const CLASS_PATH: &str = "classpath.txt";

/// Compiles the listener, and writes down what the tests need and a description of each class.
pub(super) fn prepare(folder: &Path, out: &Path) -> Outcome<()> {
    let tests = tests_of(folder);
    let file = out.join(CLASS_PATH);
    let mut maven = Command::new("mvn");
    maven.current_dir(&tests).args(["--quiet", "--batch-mode", "dependency:build-classpath"]);
    maven.arg(format!("-Dmdep.outputFile={}", file.display())).arg("-Dmdep.includeScope=test");
    processes::run("java: find what the tests need", &mut maven)?;
    let paths = std::fs::read_to_string(&file)?;
    let mut compile = Command::new("javac");
    compile.args(["-cp", paths.trim(), "-d"]).arg(out);
    compile.arg(workspace::root().join("conformance/outside/Tally.java"));
    processes::run("java: compile the listener", &mut compile)?;
    let classes = tests.join("target/test-classes");
    let all = format!("{}:{}:{}", out.display(), classes.display(), paths.trim());
    std::fs::write(&file, all)?;
    let group = std::fs::read_to_string(classes.join("emulator-testng.xml"))?;
    for class in emulator_classes(&tests.join("src/test/java"))? {
        std::fs::write(out.join(format!("{class}.xml")), suite_of(&group, &class)?)?;
    }
    forget(&out.join("tally"))
}

/// A process for each class, those that take long first.
pub(super) fn steps(site: &Site<'_>) -> Outcome<Vec<Step>> {
    let tests = tests_of(site.folder);
    let paths = std::fs::read_to_string(site.out.join(CLASS_PATH))?;
    let store = site.certificate.with_extension("p12");
    forget(&store)?;
    let mut keytool = Command::new("keytool");
    keytool.args(["-importcert", "-noprompt", "-alias", "armilla", "-storepass", "changeit"]);
    keytool.arg("-file").arg(site.certificate).arg("-keystore").arg(&store);
    processes::run("java: trust the certificate", &mut keytool)?;
    let mut classes = emulator_classes(&tests.join("src/test/java"))?;
    classes.sort_by_key(|class| !is_long(class));
    let step = |class: String| {
        let command = test_run(site, &tests, &paths, &class);
        Step { name: class, command }
    };
    Ok(classes.into_iter().map(step).collect())
}

fn tests_of(folder: &Path) -> PathBuf {
    folder.join("sdk/cosmos/azure-cosmos-tests")
}

/// Removes what an earlier run left.
fn forget(file: &Path) -> Outcome<()> {
    match std::fs::remove_file(file) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}

fn is_long(class: &str) -> bool {
    let name = class.rsplit('.').next().unwrap_or(class);
    LONG_CLASSES.contains(&name)
}

/// The classes that have tests of the group, by their full names.
fn emulator_classes(sources: &Path) -> Outcome<Vec<String>> {
    let mut classes = Vec::new();
    let mut folders = vec![sources.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "java")
                && has_tests(&std::fs::read_to_string(&path)?)
            {
                classes.push(class_name(sources, &path));
            }
        }
    }
    classes.sort();
    Ok(classes)
}

fn has_tests(source: &str) -> bool {
    source.contains("\"emulator\"") && !source.contains("public abstract class")
}

fn class_name(sources: &Path, file: &Path) -> String {
    let path: PathBuf = file.strip_prefix(sources).unwrap_or(file).with_extension("");
    let parts: Vec<_> = path.iter().map(|part| part.to_string_lossy()).collect();
    parts.join(".")
}

/// The description of the group with one class in place of its packages.
fn suite_of(group: &str, class: &str) -> Outcome<String> {
    let (head, rest) = group.split_once(PACKAGES.0).ok_or("the group names no packages")?;
    let (_, tail) = rest.split_once(PACKAGES.1).ok_or("the group names no packages")?;
    Ok(format!("{head}<classes><class name=\"{class}\"/></classes>{tail}"))
}

fn test_run(site: &Site<'_>, tests: &Path, paths: &str, class: &str) -> Command {
    let mut command = Command::new("java");
    command.current_dir(tests).args(["-Xmx2g", "-Djavax.net.ssl.trustStorePassword=changeit"]);
    for package in OPENED_PACKAGES {
        command.arg("--add-opens").arg(format!("java.base/{package}=ALL-UNNAMED"));
    }
    command.args(["--add-exports", "java.base/sun.nio.ch=ALL-UNNAMED"]);
    command
        .arg(format!(
            "-Djavax.net.ssl.trustStore={}",
            site.certificate.with_extension("p12").display()
        ))
        .arg(format!("-DACCOUNT_HOST={}", site.endpoint("https")))
        .arg("-DACCOUNT_CONSISTENCY=Strong")
        .arg(format!("-Dtally.file={}", site.out.join("tally").display()))
        .args(["-cp", paths, "org.testng.TestNG", "-usedefaultlisteners", "false"])
        .args(["-listener", "Tally", "-d"])
        .arg(site.out)
        .arg(site.out.join(format!("{class}.xml")));
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_found_by_their_group() {
        let sources = tempfile::tempdir().unwrap();
        let folder = sources.path().join("com/example");
        std::fs::create_dir_all(&folder).unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).unwrap();
        write("A.java", "@Test(groups = { \"fast\", \"emulator\" })");
        write("B.java", "@Test(groups = { \"fast\" })");
        write("Base.java", "public abstract class Base { @Test(groups = \"emulator\") }");
        write("C.txt", "\"emulator\"");
        assert_eq!(emulator_classes(sources.path()).unwrap(), ["com.example.A"]);
    }

    #[test]
    fn long_classes_are_known_by_their_last_name() {
        assert!(is_long("com.azure.cosmos.rx.DocumentCrudTest") && is_long("DocumentCrudTest"));
        assert!(!is_long("com.azure.cosmos.rx.UserCrudTest") && !is_long("DocumentCrudTest.x"));
    }

    #[test]
    fn a_class_takes_the_place_of_the_packages() {
        let group = "<suite><packages><package name=\"a.*\"/></packages></suite>";
        let suite = suite_of(group, "a.B").unwrap();
        assert_eq!(suite, "<suite><classes><class name=\"a.B\"/></classes></suite>");
        assert!(suite_of("<suite/>", "a.B").is_err());
    }
}
