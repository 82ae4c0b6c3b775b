#!/bin/sh
# Makes the stores of this folder again, with other keys. Needs keytool of Java 17 and openssl 3 in PATH, and in BC the
# path of bcprov-jdk18on-1.80.jar (org.bouncycastle on Maven Central).
set -eu
cd "$(dirname "$0")"
: "${BC:?}"
export LC_ALL=C.UTF-8
work=$(mktemp -d)
trap 'rm -r "$work"' EXIT
rm -f ./*.jks ./*.p12 ./*.jceks ./*.bcfks ./*.pem
STORE=store-password
KEY=key-password

# made NAME KEY_TYPE EXTENSIONS [SIGNER]: a key and a certificate that the signer, or the key itself, signed.
made() {
    openssl genpkey -quiet -out "$work/$1.key" $2
    printf '[e]\n%s\n' "$3" >"$work/$1.ext"
    openssl req -new -key "$work/$1.key" -subj "/O=kafkawire tests/CN=$1" -out "$work/$1.csr"
    if [ $# = 4 ]; then by="-CA $work/$4.crt -CAkey $work/$4.key -CAcreateserial"; else by="-signkey $work/$1.key"; fi
    openssl x509 -req -in "$work/$1.csr" -days 36500 -extfile "$work/$1.ext" -extensions e $by -out "$work/$1.crt"
}
EC='-algorithm EC -pkeyopt ec_paramgen_curve:P-256'
RSA='-algorithm RSA -pkeyopt rsa_keygen_bits:2048'
CA='basicConstraints=critical,CA:true'
made authority "$EC" $CA
made other "$EC" $CA
made intermediate "$EC" $CA authority
made localhost "$EC" subjectAltName=DNS:localhost authority
made client "$RSA" subjectAltName=DNS:client intermediate
made second "$EC" subjectAltName=DNS:second intermediate
cp "$work/authority.crt" authority.pem
cp "$work/other.crt" other.pem
cat "$work/localhost.key" "$work/localhost.crt" >server.pem
for each in client second; do
    cat "$work/$each.crt" "$work/intermediate.crt" authority.pem >"$work/$each.chain"
    openssl pkcs12 -export -inkey "$work/$each.key" -in "$work/$each.chain" -name $each \
        -passout "pass:$STORE" -out "$work/$each.p12"
done
cat "$work/client.key" "$work/client.chain" >client.pem

# with_key STORE TYPE ALIAS [MORE]
with_key() {
    into=$1 type=$2 alias=$3
    shift 3
    keytool -importkeystore -noprompt -srckeystore "$work/$alias.p12" -srcstorepass $STORE -destkeystore "$into" \
        -deststoretype $type -deststorepass $STORE -srcalias "$alias" "$@"
}
# with_certificate STORE TYPE ALIAS [MORE]
with_certificate() {
    into=$1 type=$2 alias=$3
    shift 3
    keytool -importcert -noprompt -keystore "$into" -storetype $type -storepass $STORE -alias "$alias" \
        -file "$alias.pem" "$@"
}

with_key client.jks JKS client -destkeypass $KEY
with_key client-same-password.jks JKS client -destkeypass $STORE
with_key client.jceks JCEKS client -destkeypass $KEY
with_key client.bcfks BCFKS client -providerpath "$BC" -provider org.bouncycastle.jce.provider.BouncyCastleProvider
with_key client.p12 PKCS12 client
with_key client-legacy.p12 PKCS12 client -J-Dkeystore.pkcs12.legacy
with_key client-bc.p12 PKCS12 client -destprovidername BC -providerpath "$BC" \
    -provider org.bouncycastle.jce.provider.BouncyCastleProvider
with_key client-no-mac.p12 PKCS12 client -J-Dkeystore.pkcs12.macAlgorithm=NONE \
    -J-Dkeystore.pkcs12.certProtectionAlgorithm=NONE
openssl pkcs12 -export -inkey "$work/client.key" -in "$work/client.chain" -passout "pass:$STORE" \
    -out client-openssl.p12
openssl pkcs12 -export -keypbe NONE -certpbe NONE -in client.pem -name client -passout "pass:$STORE" \
    -out client-plain.p12
keytool -importkeystore -noprompt -srckeystore "$work/second.p12" -srcstorepass $STORE -srcalias second \
    -destkeystore not-ascii.jks -deststoretype JKS -deststorepass 'störe-€-\N' -destkeypass 'kéy-€-😀'

for of in jks:JKS p12:PKCS12; do
    end=${of%:*} type=${of#*:}
    with_key two-keys.$end $type client -destkeypass $STORE
    with_key two-keys.$end $type second -destkeypass $STORE
    with_certificate trust.$end $type authority
    with_certificate trust.$end $type other
    with_key key-and-trust.$end $type client -destkeypass $STORE
    with_certificate key-and-trust.$end $type other
    with_certificate empty.$end $type other
    keytool -delete -keystore empty.$end -storepass $STORE -alias other
done
with_certificate trust-legacy.p12 PKCS12 authority -J-Dkeystore.pkcs12.legacy
with_certificate trust-no-password.p12 PKCS12 authority -J-Dkeystore.pkcs12.macAlgorithm=NONE \
    -J-Dkeystore.pkcs12.certProtectionAlgorithm=NONE
openssl pkcs12 -export -nokeys -in authority.pem -passout "pass:$STORE" -out trust-openssl.p12
