//! The blog platform's data as a pure function of a seed and a number of users.
//!
//! Every id, text and date can be computed from a number, so the clients know what to ask for without reading the data. A user
//! has 5 to 50 posts, a post 0 to 25 comments and 0 to 100 likes; with 1,000 users that is about 1.75 million items.

use crate::chance::{Chance, date, draw, text, uuid, word};
use crate::rows::{Act, Design};

const USER: u64 = 1;
const POST: u64 = 2;
const COMMENT: u64 = 3;
const LIKE: u64 = 4;
const POSTS_OF_USER: u64 = 5;
const COMMENTS_OF_POST: u64 = 6;
const LIKES_OF_POST: u64 = 7;
const DATE_OF_POST: u64 = 8;
const NAME_OF_USER: u64 = 9;
const NEW: u64 = 10;
const PICK: u64 = 20;

const POSTS_MIN: u64 = 5;
const POSTS_SPAN: u64 = 46;
const COMMENTS_SPAN: u64 = 26;
const LIKES_SPAN: u64 = 101;
const BEGIN_OF_2019: u64 = 1_546_300_800_000;
const TWO_YEARS: u64 = 731 * 86_400_000;
const THIRTY_DAYS: u64 = 30 * 86_400_000;
/// Where the content of a short copy is cut.
const SHORT: usize = 100;

/// How much of a post, comment or like is kept.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Without usernames and counters.
    Normalised,
    /// With them.
    Whole,
    /// With them, content cut.
    Short,
}

impl Shape {
    /// The shape of what a design keeps in its container of posts.
    pub(crate) fn of(design: Design) -> Self {
        if design == Design::V1 { Self::Normalised } else { Self::Whole }
    }
}

/// A new item with its partition key.
pub(crate) struct NewItem {
    pub(crate) key: String,
    pub(crate) id: String,
    pub(crate) body: String,
}

/// The data.
pub(crate) struct Blog {
    seed: u64,
    users: u64,
    /// `first_posts[u]..first_posts[u + 1]` are the posts of user `u`.
    first_posts: Vec<u64>,
}

impl Blog {
    pub(crate) fn new(seed: u64, users: u64) -> Self {
        let mut first_posts = vec![0];
        let mut posts = 0;
        for user in 0..users {
            posts += POSTS_MIN + draw(seed, POSTS_OF_USER, user, 0) % POSTS_SPAN;
            first_posts.push(posts);
        }
        Self { seed, users, first_posts }
    }

    pub(crate) fn users(&self) -> u64 {
        self.users
    }

    /// How many posts there are.
    pub(crate) fn posts(&self) -> u64 {
        self.first_posts.last().copied().unwrap_or(0)
    }

    /// The posts of a user.
    pub(crate) fn posts_of(&self, user: u64) -> std::ops::Range<u64> {
        let at = usize::try_from(user).unwrap_or(usize::MAX);
        self.first_posts[at]..self.first_posts[at + 1]
    }

    pub(crate) fn comments_of(&self, post: u64) -> u64 {
        draw(self.seed, COMMENTS_OF_POST, post, 0) % COMMENTS_SPAN
    }

    pub(crate) fn likes_of(&self, post: u64) -> u64 {
        draw(self.seed, LIKES_OF_POST, post, 0) % LIKES_SPAN
    }

    /// When a post was written, in milliseconds since 1970.
    pub(crate) fn date_of(&self, post: u64) -> u64 {
        BEGIN_OF_2019 + draw(self.seed, DATE_OF_POST, post, 0) % TWO_YEARS
    }

    /// Who wrote a post.
    pub(crate) fn author(&self, post: u64) -> u64 {
        let behind = self.first_posts.partition_point(|first| *first <= post);
        u64::try_from(behind).unwrap_or(0).saturating_sub(1)
    }

    fn user_id(&self, user: u64) -> String {
        uuid(draw(self.seed, USER, user, 0))
    }

    fn post_id(&self, post: u64) -> String {
        uuid(draw(self.seed, POST, post, 0))
    }

    fn username(&self, user: u64) -> String {
        let mut chance = Chance::new(draw(self.seed, NAME_OF_USER, user, 0));
        format!("{}_{}{user}", word(&mut chance), word(&mut chance))
    }

    /// The user whom the `nth` operation of an act asks for; the same on every system.
    pub(crate) fn pick_user(&self, act: Act, nth: u64) -> String {
        self.user_id(draw(self.seed, PICK + act.stream(), nth, 0) % self.users)
    }

    /// The post that the `nth` operation of an act asks for.
    pub(crate) fn pick_post(&self, act: Act, nth: u64) -> String {
        self.post_id(draw(self.seed, PICK + act.stream(), nth, 1) % self.posts())
    }

    /// A user, in V3 with a type and the key.
    pub(crate) fn user(&self, user: u64, design: Design) -> String {
        user_body(&self.user_id(user), &self.username(user), design)
    }

    /// A post.
    pub(crate) fn post(&self, post: u64, shape: Shape) -> String {
        let mut chance = Chance::new(draw(self.seed, POST, post, 1));
        let counters = (self.comments_of(post), self.likes_of(post));
        let written = date(self.date_of(post));
        self.post_body(
            &self.post_id(post),
            self.author(post),
            shape,
            &mut chance,
            (counters, written),
        )
    }

    fn post_body(
        &self,
        id: &str,
        author: u64,
        shape: Shape,
        chance: &mut Chance,
        ((comments, likes), written): ((u64, u64), String),
    ) -> String {
        let title_length = 24 + usize::try_from(chance.below(40)).unwrap_or(0);
        let title = text(chance, title_length);
        let content_length = 250 + usize::try_from(chance.below(301)).unwrap_or(0);
        let mut content = text(chance, content_length);
        if shape == Shape::Short {
            content.truncate(SHORT);
        }
        let user = self.user_id(author);
        let head = format!(r#"{{"id":"{id}","type":"post","postId":"{id}","userId":"{user}""#);
        let body = format!(r#""title":"{title}","content":"{content}""#);
        if shape == Shape::Normalised {
            return format!(r#"{head},{body},"creationDate":"{written}"}}"#);
        }
        let name = self.username(author);
        let counters = format!(r#""commentCount":{comments},"likeCount":{likes}"#);
        format!(r#"{head},"userUsername":"{name}",{body},{counters},"creationDate":"{written}"}}"#)
    }

    /// The `nth` comment of a post.
    pub(crate) fn comment(&self, post: u64, nth: u64, shape: Shape) -> String {
        let drawn = draw(self.seed, COMMENT, post, nth);
        let mut chance = Chance::new(drawn);
        let written = date(self.date_of(post) + chance.below(THIRTY_DAYS));
        self.comment_body(&uuid(drawn), &self.post_id(post), shape, &mut chance, &written)
    }

    fn comment_body(
        &self,
        id: &str,
        post: &str,
        shape: Shape,
        chance: &mut Chance,
        written: &str,
    ) -> String {
        let author = self.remark_by(chance.below(self.users), shape);
        let length = 40 + usize::try_from(chance.below(201)).unwrap_or(0);
        let content = text(chance, length);
        let head = format!(r#"{{"id":"{id}","type":"comment","postId":"{post}",{author}"#);
        format!(r#"{head},"content":"{content}","creationDate":"{written}"}}"#)
    }

    /// The `nth` like of a post.
    pub(crate) fn like(&self, post: u64, nth: u64, shape: Shape) -> String {
        let drawn = draw(self.seed, LIKE, post, nth);
        let mut chance = Chance::new(drawn);
        let written = date(self.date_of(post) + chance.below(THIRTY_DAYS));
        self.like_body(&uuid(drawn), &self.post_id(post), shape, &mut chance, &written)
    }

    fn like_body(
        &self,
        id: &str,
        post: &str,
        shape: Shape,
        chance: &mut Chance,
        written: &str,
    ) -> String {
        let author = self.remark_by(chance.below(self.users), shape);
        let head = format!(r#"{{"id":"{id}","type":"like","postId":"{post}",{author}"#);
        format!(r#"{head},"creationDate":"{written}"}}"#)
    }

    fn remark_by(&self, user: u64, shape: Shape) -> String {
        let id = self.user_id(user);
        if shape == Shape::Normalised {
            return format!(r#""userId":"{id}""#);
        }
        format!(r#""userId":"{id}","userUsername":"{}""#, self.username(user))
    }

    /// What the `nth` write of a row writes. `run` keeps new ids apart from those of other cells; every other upsert of C1 and C2
    /// edits what exists.
    pub(crate) fn written(&self, design: Design, act: Act, run: u64, nth: u64) -> NewItem {
        let drawn = draw(self.seed ^ run, NEW + act.stream(), nth, 0);
        let mut chance = Chance::new(drawn);
        let (id, edits) = (uuid(drawn), nth % 2 == 1);
        let shape = Shape::of(design);
        let post = chance.below(self.posts());
        let written = date(BEGIN_OF_2019 + TWO_YEARS + nth);
        match act {
            Act::C1 if edits => {
                let user = chance.below(self.users);
                let id = self.user_id(user);
                NewItem { key: id.clone(), id, body: self.user(user, design) }
            }
            Act::C1 => {
                let body = user_body(&id, &format!("newcomer_{nth}"), design);
                NewItem { key: id.clone(), id, body }
            }
            Act::C2 if edits => {
                let id = self.post_id(post);
                NewItem { key: id.clone(), id, body: self.post(post, shape) }
            }
            Act::C2 => {
                let author = chance.below(self.users);
                let older = date(BEGIN_OF_2019 + chance.below(TWO_YEARS));
                let body = self.post_body(&id, author, shape, &mut chance, ((0, 0), older));
                NewItem { key: id.clone(), id, body }
            }
            Act::C3 => {
                let key = self.post_id(post);
                let body = self.comment_body(&id, &key, shape, &mut chance, &written);
                NewItem { key, id, body }
            }
            _ => {
                let key = self.post_id(post);
                let body = self.like_body(&id, &key, shape, &mut chance, &written);
                NewItem { key, id, body }
            }
        }
    }
}

fn user_body(id: &str, name: &str, design: Design) -> String {
    if design == Design::V3 {
        return format!(r#"{{"id":"{id}","type":"user","userId":"{id}","username":"{name}"}}"#);
    }
    format!(r#"{{"id":"{id}","username":"{name}"}}"#)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_json_with_the_properties_of_their_shape() {
        let blog = Blog::new(1, 20);
        let whole: serde_json::Value = serde_json::from_str(&blog.post(3, Shape::Whole)).unwrap();
        assert_eq!(whole["commentCount"], blog.comments_of(3));
        assert_eq!(whole["userId"], blog.user_id(blog.author(3)));
        let normalised: serde_json::Value =
            serde_json::from_str(&blog.post(3, Shape::Normalised)).unwrap();
        assert!(normalised.get("userUsername").is_none());
        assert_eq!(normalised["content"], whole["content"]);
        for text in [blog.comment(3, 0, Shape::Whole), blog.like(3, 0, Shape::Normalised)] {
            let remark: serde_json::Value = serde_json::from_str(&text).unwrap();
            assert_eq!(remark["postId"], whole["id"]);
        }
    }

    #[test]
    fn the_author_of_a_post_is_who_has_it_among_the_own() {
        let blog = Blog::new(7, 50);
        for user in 0..50 {
            assert!(blog.posts_of(user).all(|post| blog.author(post) == user));
        }
    }
}
