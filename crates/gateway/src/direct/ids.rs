//! The numbers of the protocol: tokens, their types, resources and operations.
//!
//! Requests may carry any of 247 tokens; the server uses those that have a name here and checks the types of
//! all.

use super::token::Type;

/// Tokens of requests that the server looks at.
pub(crate) mod request {
    pub(crate) const RESOURCE_ID: u16 = 0x00;
    pub(crate) const AUTHORIZATION: u16 = 0x01;
    pub(crate) const PAYLOAD_PRESENT: u16 = 0x02;
    pub(crate) const DATE: u16 = 0x03;
    pub(crate) const PAGE_SIZE: u16 = 0x04;
    pub(crate) const SESSION_TOKEN: u16 = 0x05;
    pub(crate) const CONTINUATION: u16 = 0x06;
    pub(crate) const INDEXING_DIRECTIVE: u16 = 0x07;
    pub(crate) const MATCH: u16 = 0x08;
    pub(crate) const PRE_TRIGGERS: u16 = 0x09;
    pub(crate) const POST_TRIGGERS: u16 = 0x0a;
    pub(crate) const CONSISTENCY_LEVEL: u16 = 0x10;
    pub(crate) const REPLICA_PATH: u16 = 0x13;
    pub(crate) const TOKEN_EXPIRY: u16 = 0x14;
    pub(crate) const DATABASE_NAME: u16 = 0x15;
    pub(crate) const COLLECTION_NAME: u16 = 0x16;
    pub(crate) const DOCUMENT_NAME: u16 = 0x17;
    pub(crate) const USER_NAME: u16 = 0x19;
    pub(crate) const PERMISSION_NAME: u16 = 0x1a;
    pub(crate) const PROCEDURE_NAME: u16 = 0x1b;
    pub(crate) const ENABLE_SCAN: u16 = 0x1e;
    pub(crate) const CONFLICT_NAME: u16 = 0x20;
    pub(crate) const CLIENT_VERSION: u16 = 0x28;
    pub(crate) const PARTITION_KEY: u16 = 0x2b;
    pub(crate) const RANGE_ID: u16 = 0x2c;
    pub(crate) const COLLECTION_RID: u16 = 0x35;
    pub(crate) const ENABLE_LOGGING: u16 = 0x3e;
    pub(crate) const A_IM: u16 = 0x3f;
    pub(crate) const POPULATE_QUOTA_INFO: u16 = 0x40;
    pub(crate) const POPULATE_QUERY_METRICS: u16 = 0x42;
    pub(crate) const CONTINUATION_LIMIT: u16 = 0x43;
    pub(crate) const POPULATE_PARTITION_STATISTICS: u16 = 0x44;
    pub(crate) const IF_MODIFIED_SINCE: u16 = 0x47;
    pub(crate) const TRANSPORT_REQUEST_ID: u16 = 0x4d;
    pub(crate) const FORCE_QUERY_SCAN: u16 = 0x54;
    pub(crate) const START_EPK: u16 = 0x62;
    pub(crate) const END_EPK: u16 = 0x63;
    pub(crate) const READ_FEED_KEY_TYPE: u16 = 0x64;
    pub(crate) const CONTENT_FORMAT: u16 = 0x65;
    pub(crate) const BATCH_ATOMIC: u16 = 0x73;
    pub(crate) const BATCH_CONTINUE_ON_ERROR: u16 = 0x74;
    pub(crate) const RETURN_PREFERENCE: u16 = 0x82;
    pub(crate) const INTENDED_COLLECTION_RID: u16 = 0x9d;
    pub(crate) const POPULATE_INDEX_METRICS: u16 = 0xa9;
    pub(crate) const FEED_WIRE_FORMAT: u16 = 0xb2;
    pub(crate) const PRIORITY_LEVEL: u16 = 0xbf;
    pub(crate) const POPULATE_INDEX_METRICS_V2: u16 = 0xc2;
    pub(crate) const SUPPORTED_FORMATS: u16 = 0xc4;
    pub(crate) const POPULATE_QUERY_ADVICE: u16 = 0xda;
    pub(crate) const THROUGHPUT_BUCKET: u16 = 0xdb;
}

/// Tokens of responses that the server writes.
pub(crate) mod response {
    pub(crate) const PAYLOAD_PRESENT: u16 = 0x00;
    pub(crate) const CONTINUATION: u16 = 0x03;
    pub(crate) const ETAG: u16 = 0x04;
    pub(crate) const RETRY_AFTER: u16 = 0x0c;
    pub(crate) const QUOTA: u16 = 0x0e;
    pub(crate) const USAGE: u16 = 0x0f;
    pub(crate) const LSN: u16 = 0x13;
    pub(crate) const ITEM_COUNT: u16 = 0x14;
    pub(crate) const REQUEST_CHARGE: u16 = 0x15;
    pub(crate) const OWNER_NAME: u16 = 0x17;
    pub(crate) const OWNER_RID: u16 = 0x18;
    pub(crate) const QUORUM_ACKED_LSN: u16 = 0x1a;
    pub(crate) const SUBSTATUS: u16 = 0x1c;
    pub(crate) const INDEX_PROGRESS: u16 = 0x1d;
    pub(crate) const WRITE_QUORUM: u16 = 0x1e;
    pub(crate) const REPLICA_SET_SIZE: u16 = 0x1f;
    pub(crate) const RANGE_ID: u16 = 0x21;
    pub(crate) const LOG_RESULTS: u16 = 0x25;
    pub(crate) const QUERY_METRICS: u16 = 0x28;
    pub(crate) const GLOBAL_COMMITTED_LSN: u16 = 0x29;
    pub(crate) const READ_REGIONS: u16 = 0x30;
    pub(crate) const ITEM_LSN: u16 = 0x32;
    pub(crate) const TRANSPORT_REQUEST_ID: u16 = 0x35;
    pub(crate) const LOCAL_LSN: u16 = 0x3a;
    pub(crate) const QUORUM_ACKED_LOCAL_LSN: u16 = 0x3b;
    pub(crate) const ITEM_LOCAL_LSN: u16 = 0x3c;
    pub(crate) const SESSION_TOKEN: u16 = 0x3e;
    pub(crate) const INDEX_UTILIZATION: u16 = 0x44;
    pub(crate) const QUERY_EXECUTION_INFO: u16 = 0x45;
    pub(crate) const REQUEST_DURATION: u16 = 0x51;
    pub(crate) const REQUIRES_DISTRIBUTION: u16 = 0x66;
    pub(crate) const QUERY_ADVICE: u16 = 0x75;
}

/// Tokens of the first exchange.
pub(crate) mod context {
    pub(crate) const PROTOCOL_VERSION: u16 = 0;
    pub(crate) const CLIENT_VERSION: u16 = 1;
    pub(crate) const USER_AGENT: u16 = 2;
    pub(crate) const SERVER_AGENT: u16 = 2;
    pub(crate) const SERVER_VERSION: u16 = 3;
    pub(crate) const IDLE_TIMEOUT: u16 = 4;
    pub(crate) const UNAUTHENTICATED_TIMEOUT: u16 = 5;
}

/// The types that a known token of a request may have; nothing for unknown ids.
#[rustfmt::skip]
pub(crate) fn request_types(id: u16) -> Option<&'static [Type]> {
    Some(match id {
        0x00 | 0x58 | 0x5a | 0x5f | 0x60 | 0x62 | 0x63 | 0x72 | 0x77 | 0x7e | 0x7f | 0x8b | 0x96
        | 0xd2 | 0xd3 => &[Type::Bytes],
        0x01 | 0x05 | 0x06 | 0x08..=0x0a | 0x0e | 0x0f | 0x11 | 0x13 | 0x15..=0x1d | 0x20..=0x25
        | 0x2b | 0x2c | 0x35 | 0x36 | 0x3a | 0x3b | 0x3d | 0x3f | 0x46 | 0x47 | 0x4e | 0x4f | 0x51
        | 0x5c | 0x76 | 0x7a | 0x80 | 0x8a | 0x8e | 0x91 | 0x92 | 0x9a | 0x9d | 0xa4 | 0xa5 | 0xa8
        | 0xab | 0xad..=0xaf | 0xb2 | 0xb5 | 0xbe | 0xc0 | 0xcc..=0xce | 0xd0 | 0xe8 | 0xf2
        | 0xf5..=0xf7 | 0xff => &[Type::String],
        0x03 | 0x12 | 0x28 | 0x100 => &[Type::SmallString],
        // A time to live is unsigned in .NET and signed in Java.
        0x59 => &[Type::ULong, Type::Long],
        0x04 | 0x0c | 0x0d | 0x14 | 0x34 | 0x43 | 0x49 | 0x4a | 0x4d | 0x68 | 0x79 | 0x8f
        | 0xa2 => &[Type::ULong],
        0x4b | 0x4c | 0x81 | 0xfa => &[Type::LongLong],
        0x98 => &[Type::ULongLong],
        0xa0 => &[Type::Long],
        0xb0 | 0xd7 | 0xf8 | 0xfb => &[Type::Guid],
        0xe7 | 0x101 => &[Type::UShort],
        // Not known to anybody.
        0x2d..=0x30 | 0x32 | 0x37..=0x39 | 0x55 | 0x6a..=0x6f | 0xa7 => return None,
        0x107.. => return None,
        _ => &[Type::Byte],
    })
}

/// The types of the first request's tokens.
pub(crate) fn context_types(id: u16) -> Option<&'static [Type]> {
    Some(match id {
        0 => &[Type::ULong],
        1 | 2 | 6 => &[Type::SmallString],
        3 | 4 | 7 => &[Type::Byte],
        5 => &[Type::String],
        _ => return None,
    })
}

/// Whether a number is that of a resource, served or not.
pub(crate) fn is_resource(number: u16) -> bool {
    matches!(number, 0..=22 | 24..=29 | 31..=33 | 35 | 37..=46 | 48 | 52 | 53 | 55)
}

/// Whether a number is that of an operation, served or not.
pub(crate) fn is_operation(number: u16) -> bool {
    matches!(number, 0..=6 | 8..=42 | 44 | 46..=55 | 57..=68)
}
