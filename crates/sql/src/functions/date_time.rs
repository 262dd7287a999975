//! date_time.

use super::{Context, Function};
use armilla_model::Value;

pub(super) const FUNCTIONS: &[Function] = &[
    Function::exact("DATETIMEADD", 3, later),
    Function::between("DATETIMEBIN", 2, 4, later),
    Function::exact("DATETIMEDIFF", 3, later),
    Function::exact("DATETIMEFORMAT", 2, later),
    Function::between("DATETIMEFROMPARTS", 3, 7, later),
    Function::exact("DATETIMEPART", 2, later),
    Function::exact("DATETIMETOTICKS", 1, later),
    Function::exact("DATETIMETOTIMESTAMP", 1, later),
    Function::exact("TICKSTODATETIME", 1, later),
    Function::exact("TIMESTAMPTODATETIME", 1, later),
    Function::exact("YEAR", 1, later),
    Function::exact("MONTH", 1, later),
    Function::exact("DAY", 1, later),
    Function::exact("GETCURRENTDATETIME", 0, later),
    Function::exact("GETCURRENTTICKS", 0, later),
    Function::exact("GETCURRENTTIMESTAMP", 0, later),
    Function::exact("GETCURRENTDATETIMESTATIC", 0, later),
    Function::exact("GETCURRENTTICKSSTATIC", 0, later),
    Function::exact("GETCURRENTTIMESTAMPSTATIC", 0, later),
    Function::between("NOW", 0, 2, later),
    Function::exact("AGO", 2, later),
];

fn later(_: &mut Context<'_>, _: &[Value]) -> Value {
    Value::Undefined
}
