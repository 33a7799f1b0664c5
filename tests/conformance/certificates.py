"""Certificates of the suite's own, made by openssl: a CA and leaves that no system trusts."""

import pathlib

from harness import ensure, run

KEY = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]


class Authority:
    """A CA in a folder. `pem` is its certificate; `leaf` makes a server certificate for some names."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.pem, self.key = self.folder / "ca.pem", self.folder / "ca.key"
        self.openssl(
            "req",
            "-x509",
            *KEY,
            "-days",
            "2",
            "-subj",
            "/CN=conformance CA",
            "-addext",
            "keyUsage=critical,keyCertSign,cRLSign",
            "-keyout",
            self.key,
            "-out",
            self.pem,
        )

    def openssl(self, *arguments):
        status, output, errors = run(["openssl", *arguments])
        ensure(status == 0, f"openssl {arguments[0]}: {errors}")
        return output

    def leaf(self, name, subject_alternative_names):
        """Gives (certificate, key) files, for names such as "DNS:origin.test" and "IP:127.0.0.1"."""
        certificate, key = self.folder / f"{name}.pem", self.folder / f"{name}.key"
        request, extensions = self.folder / f"{name}.csr", self.folder / f"{name}.ext"
        self.openssl("req", "-new", *KEY, "-subj", f"/CN={name}", "-keyout", key, "-out", request)
        extensions.write_text(
            f"subjectAltName={','.join(subject_alternative_names)}\nextendedKeyUsage=serverAuth\nbasicConstraints=CA:FALSE\n"
            "subjectKeyIdentifier=hash\nauthorityKeyIdentifier=keyid\n"
        )
        self.openssl(
            "x509",
            "-req",
            "-in",
            request,
            "-CA",
            self.pem,
            "-CAkey",
            self.key,
            "-CAcreateserial",
            "-days",
            "2",
            "-extfile",
            extensions,
            "-out",
            certificate,
        )
        return certificate, key
