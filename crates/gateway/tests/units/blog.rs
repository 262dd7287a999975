//! The dataset of the article on modelling a blog platform, as
//! `docs/protocol/charges.md#the-articles-dataset` describes it: one
//! reference user with 26 posts, 344 comments and 1375 likes, one reference post with 20 comments
//! and 50 likes, the hundred newest posts with 12.5 comments and 50 likes each on average, and on
//! every one of 42 ranges more than a hundred posts.

use crate::support::Armilla;
use armilla_engine::account::NewContainer;
use armilla_engine::dials::Turned;
use armilla_engine::items::WriteOptions;
use armilla_engine::{Container, Txn};
use armilla_model::json;
use armilla_model::partition_key::PartitionKey;
use std::sync::{Arc, mpsc};

/// Ranges of the posts.
pub(crate) const RANGES: usize = 42;
/// Posts of each range: as many as the feed asks for, and two.
const POSTS_PER_RANGE: usize = 102;
const POSTS_OF_USER: usize = 26;
const COMMENTS_OF_USER: usize = 344;
const LIKES_OF_USER: usize = 1375;
const NEWEST: usize = 100;
const NAME: &str = "nnnnnnnnnnnn";

/// How posts, comments and likes are stored.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Version {
    /// Normalised.
    V1,
    /// With names and counts.
    V2,
}

/// An id of 36 characters.
pub(crate) fn guid(kind: u32, number: usize) -> String {
    format!("{kind:08x}-0000-4000-8000-{number:012x}")
}

pub(crate) fn user_id(number: usize) -> String {
    guid(1, number)
}

/// The reference user and post.
pub(crate) const USER: usize = 0;
pub(crate) const POST: usize = 0;

fn post_id(number: usize) -> String {
    guid(2, number)
}

pub(crate) fn user(number: usize) -> String {
    format!(r#"{{"id":"{}","username":"{NAME}"}}"#, user_id(number))
}

pub(crate) fn user_v3(number: usize) -> String {
    let id = user_id(number);
    format!(r#"{{"id":"{id}","type":"user","userId":"{id}","username":"{NAME}"}}"#)
}

/// A post's members behind its id.
fn post_members(id: &str, user: usize, content: usize, date: usize, version: Version) -> String {
    let more = match version {
        Version::V1 => String::new(),
        Version::V2 => format!(r#","userUsername":"{NAME}","commentCount":20,"likeCount":50"#),
    };
    format!(
        r#""type":"post","postId":"{id}","userId":"{}","title":"{}","content":"{}","creationDate":"{}"{more}"#,
        user_id(user),
        "t".repeat(70),
        "p".repeat(content),
        moment(date),
    )
}

/// 28 characters that sort by their number.
fn moment(number: usize) -> String {
    format!("2019-05-23T10:00:{:02}.{number:07}Z", 0)
}

pub(crate) fn post(id: &str, user: usize, date: usize, version: Version) -> String {
    format!(r#"{{"id":"{id}",{}}}"#, post_members(id, user, 1200, date, version))
}

/// The truncated copy of a post.
pub(crate) fn short_post(number: usize) -> String {
    let id = post_id(number);
    format!(r#"{{"id":"{id}",{}}}"#, post_members(&id, USER, 100, number, Version::V2))
}

fn reaction(kind: &str, number: usize, post: &str, user: usize, version: Version) -> String {
    let name = match version {
        Version::V1 => String::new(),
        Version::V2 => format!(r#","userUsername":"{NAME}""#),
    };
    let content = match kind {
        "comment" => format!(r#""content":"{}","#, "c".repeat(800)),
        _ => String::new(),
    };
    let id = guid(if kind == "comment" { 3 } else { 4 }, number);
    let (user, date) = (user_id(user), moment(number));
    format!(
        r#"{{"id":"{id}","type":"{kind}","postId":"{post}","userId":"{user}",{content}"creationDate":"{date}"{name}}}"#
    )
}

pub(crate) fn comment(number: usize, post: &str, user: usize, version: Version) -> String {
    reaction("comment", number, post, user, version)
}

pub(crate) fn like(number: usize, post: &str, user: usize, version: Version) -> String {
    reaction("like", number, post, user, version)
}

/// Stores items of one logical partition in one transaction.
pub(crate) fn store(container: &Arc<Container>, items: &[String]) {
    let definition = container.settings().policy.partition_key.clone();
    let first = json::parse(items[0].as_bytes()).unwrap();
    let key = PartitionKey::of_item(&first, &definition);
    let lock = container.lock_and_wait(&definition.epk(&key));
    let mut txn = Txn::begin(container.clone(), key, lock).unwrap();
    for item in items {
        txn.create_item(item.as_bytes(), &WriteOptions::default()).unwrap();
    }
    let (sender, receiver) = mpsc::sync_channel(1);
    txn.commit(move |outcome| sender.send(outcome).unwrap());
    receiver.recv().unwrap().unwrap();
}

/// Makes a container.
pub(crate) fn container(
    armilla: &Armilla,
    database: &str,
    name: &str,
    key: &str,
    ranges: usize,
) -> Arc<Container> {
    let text = format!(r#"{{"id":"{name}","partitionKey":{{"paths":["{key}"]}}}}"#);
    let definition = json::parse(text.as_bytes()).unwrap();
    let new = NewContainer { definition: &definition, throughput: None };
    let mut turned = Turned::default();
    turned.turn("partitions", &ranges.to_string()).unwrap();
    armilla.account.create_container_with(database, &new, turned).unwrap()
}

/// Loads users and posts of one version; gives the id of the reference post.
pub(crate) fn load(armilla: &Armilla, database: &str, version: Version) -> String {
    armilla.account.create_database(database, None).unwrap();
    let users = container(armilla, database, "users", "/id", 1);
    (0..200).for_each(|number| store(&users, &[user(number)]));
    let posts = container(armilla, database, "posts", "/postId", RANGES);
    let ids = ids(&posts);
    let (mut comments, mut likes) = (0, 0);
    let mut own = (0, 0);
    for (number, id) in ids.iter().enumerate() {
        // The reference post, the reference user's posts, the newest ones, and all others.
        let of_user = (1..=POSTS_OF_USER).contains(&number);
        let newest = (POSTS_OF_USER + 1..=POSTS_OF_USER + NEWEST).contains(&number);
        let author = if of_user { USER } else { 1 + number % 150 };
        let date = if newest { 1_000_000 + number } else { number };
        let mut items = vec![post(id, author, date, version)];
        let wanted = match (number, of_user || newest) {
            (POST, _) => (20, 50),
            (_, true) => (12 + number % 2, 50),
            // The reference user has commented and liked elsewhere.
            _ => (0, 0),
        };
        for _ in 0..wanted.0 {
            comments += 1;
            items.push(comment(comments, id, 1 + comments % 150, version));
        }
        for _ in 0..wanted.1 {
            likes += 1;
            items.push(like(likes, id, 1 + likes % 150, version));
        }
        if !of_user && !newest && number != POST {
            if own.0 < COMMENTS_OF_USER {
                (own.0, comments) = (own.0 + 1, comments + 1);
                items.push(comment(comments, id, USER, version));
            }
            if own.1 < LIKES_OF_USER {
                (own.1, likes) = (own.1 + 1, likes + 1);
                items.push(like(likes, id, USER, version));
            }
        }
        store(&posts, &items);
    }
    assert_eq!(own, (COMMENTS_OF_USER, LIKES_OF_USER));
    ids[POST].clone()
}

/// Ids of posts, so many for each range, mixed.
pub(crate) fn ids(posts: &Container) -> Vec<String> {
    let definition = posts.settings().policy.partition_key.clone();
    let mut counts = vec![0; RANGES];
    let mut ids = Vec::new();
    for number in 0.. {
        let id = post_id(number);
        let key = PartitionKey::parse(&format!("[\"{id}\"]")).unwrap();
        let range = posts.partition_of(&definition.epk(&key)).range.id as usize;
        if counts[range] < POSTS_PER_RANGE {
            counts[range] += 1;
            ids.push(id);
        }
        if ids.len() == RANGES * POSTS_PER_RANGE {
            break;
        }
    }
    ids
}

/// The third version: users with short copies of their posts, and the feed.
pub(crate) fn load_v3(armilla: &Armilla) {
    armilla.account.create_database("v3", None).unwrap();
    let users = container(armilla, "v3", "users", "/userId", 1);
    let posts = (0..POSTS_OF_USER).map(short_post);
    store(&users, &std::iter::once(user_v3(USER)).chain(posts).collect::<Vec<_>>());
    let feed = container(armilla, "v3", "feed", "/type", 1);
    store(&feed, &(0..NEWEST).map(short_post).collect::<Vec<_>>());
}
