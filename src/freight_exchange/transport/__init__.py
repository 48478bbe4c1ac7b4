"""Send path of a call.

`call` makes a request and sends it through the `chain` of `middleware`; `auth` holds the login, `http` the only imports
of HTTP libraries, `lifecycle` what an entered client owns. The `rules` are pure.
"""
