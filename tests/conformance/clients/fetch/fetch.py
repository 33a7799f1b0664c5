"""Asks for the URLs in its arguments with Python's standard library, configured by the environment alone.

Prints one line of JSON for each. With --strict first, certificates are checked as Python 3.13 and later do by default.
"""

import json
import ssl
import sys
import urllib.request

context = ssl.create_default_context()
urls = sys.argv[1:]
if urls[0] == "--strict":
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    urls = urls[1:]
for url in urls:
    opener = urllib.request.build_opener(urllib.request.HTTPSHandler(context=context))
    try:
        with opener.open(url, timeout=20) as response:
            print(json.dumps({"outcome": "ok", "status": response.status}), flush=True)
    except Exception as error:
        print(json.dumps({"outcome": "error", "message": repr(error)}), flush=True)
