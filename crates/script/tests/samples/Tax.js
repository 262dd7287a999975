// A user function: a tax by the country of the employee.
function tax(employee) {
  var rates = { USA: 0.2, Canada: 0.25, UK: 0.3 };
  if (employee === undefined || !(employee.country in rates)) throw new Error('No rate for this country.');
  return employee.income * rates[employee.country];
}
