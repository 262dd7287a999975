// A pre-trigger: spells the weekday of a schedule in full and notes when it was made.
function canonicalizeSchedule() {
  const request = getContext().getRequest(), item = request.getBody();
  const days = ['Sunday', 'Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday'];
  const start = String(item.weekday).slice(0, 3).toLowerCase();
  const day = days.find((name) => start.length === 3 && name.toLowerCase().startsWith(start));
  if (!day) throw new Error(`Bad input: ${item.weekday}`);
  item.weekday = day;
  item.createdTime = new Date().toISOString();
  request.setBody(item);
}
