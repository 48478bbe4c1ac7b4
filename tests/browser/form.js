// A form that needs no script at its server's side: its one field makes JSON of the whole body.
([board, cargo]) => {
  const form = document.createElement("form");
  Object.assign(form, { method: "POST", action: `${board}/requests`, enctype: "text/plain" });
  const field = document.createElement("input");
  Object.assign(field, { name: `${cargo.slice(0, -1)}, "x": "`, value: '"}' });
  form.append(field);
  document.body.append(form);
  form.submit();
}
