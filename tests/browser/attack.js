async ([board, cargo]) => {
  const tries = [];
  for (const type of ["application/json", "text/plain", "application/x-www-form-urlencoded"])
    for (const mode of ["cors", "no-cors"])
      try {
        const answer = await fetch(`${board}/requests`, { method: "POST", mode, headers: { "Content-Type": type }, body: cargo });
        tries.push(answer.type === "opaque" ? "opaque" : answer.status);
      } catch (error) { tries.push(error.name); }
  const login = { method: "POST", mode: "no-cors", headers: { "Content-Type": "text/plain" }, body: '{"email": "x", "password": "y"}' };
  tries.push((await fetch(`${board}/../api/login`, login)).type);
  try { await (await fetch(`${board}/state?after=0`)).text(); tries.push("read"); } catch (error) { tries.push(error.name); }
  const frame = document.createElement("iframe");
  frame.src = board;
  document.body.append(frame);
  await new Promise((done) => { frame.onload = done; });
  try { tries.push(frame.contentDocument ? "seen" : "closed"); } catch (error) { tries.push(error.name); }
  return tries;
}
