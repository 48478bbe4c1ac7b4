"""Send path of a call.

`call` makes a request and sends it through the `chain` of `middleware`. `auth` has the login, `http` the only imports
of HTTP libraries, and `lifecycle` the resources of an entered client. The `rules` are pure.
"""
