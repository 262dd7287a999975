//! Signatures of JSON Web Tokens by ring.
//!
//! The crate that reads and validates tokens leaves the cryptography to a provider. This one has the
//! public-key algorithms that directories sign with; secrets shared with an issuer (`HS…`) and
//! tokens without a signature have no place in it.

use jsonwebtoken::crypto::{CryptoProvider, JwtVerifier, KeyUtils};
use jsonwebtoken::errors::{ErrorKind, Result};
use jsonwebtoken::signature::{Error, Verifier};
use jsonwebtoken::{Algorithm, DecodingKey, DecodingKeyKind};
use ring::signature::{self, RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey};

/// What tokens may be signed with.
pub(super) const ALGORITHMS: [Algorithm; 8] = [
    Algorithm::RS256,
    Algorithm::RS384,
    Algorithm::RS512,
    Algorithm::PS256,
    Algorithm::PS384,
    Algorithm::PS512,
    Algorithm::ES256,
    Algorithm::ES384,
];

static PROVIDER: CryptoProvider = CryptoProvider {
    signer_factory: |_, _| Err(ErrorKind::InvalidAlgorithm.into()),
    verifier_factory: |algorithm, key| verifier(*algorithm, key),
    key_utils: KeyUtils::new_unimplemented(),
};

/// Makes ring the cryptography of tokens. The first call in a process counts; others change nothing.
pub(super) fn install() {
    let _ = PROVIDER.install_default();
}

#[derive(Clone, Copy)]
enum Check {
    Rsa(&'static RsaParameters),
    Curve(&'static signature::EcdsaVerificationAlgorithm),
}

fn check_of(algorithm: Algorithm) -> Option<Check> {
    Some(match algorithm {
        Algorithm::RS256 => Check::Rsa(&signature::RSA_PKCS1_2048_8192_SHA256),
        Algorithm::RS384 => Check::Rsa(&signature::RSA_PKCS1_2048_8192_SHA384),
        Algorithm::RS512 => Check::Rsa(&signature::RSA_PKCS1_2048_8192_SHA512),
        Algorithm::PS256 => Check::Rsa(&signature::RSA_PSS_2048_8192_SHA256),
        Algorithm::PS384 => Check::Rsa(&signature::RSA_PSS_2048_8192_SHA384),
        Algorithm::PS512 => Check::Rsa(&signature::RSA_PSS_2048_8192_SHA512),
        Algorithm::ES256 => Check::Curve(&signature::ECDSA_P256_SHA256_FIXED),
        Algorithm::ES384 => Check::Curve(&signature::ECDSA_P384_SHA384_FIXED),
        _ => return None,
    })
}

struct RingVerifier {
    algorithm: Algorithm,
    check: Check,
    key: DecodingKey,
}

fn verifier(algorithm: Algorithm, key: &DecodingKey) -> Result<Box<dyn JwtVerifier>> {
    let check = check_of(algorithm).ok_or(ErrorKind::InvalidAlgorithm)?;
    Ok(Box::new(RingVerifier { algorithm, check, key: key.clone() }))
}

impl Verifier<Vec<u8>> for RingVerifier {
    fn verify(&self, message: &[u8], found: &Vec<u8>) -> std::result::Result<(), Error> {
        let verified = match (self.check, self.key.kind()) {
            (Check::Rsa(parameters), DecodingKeyKind::RsaModulusExponent { n, e }) => {
                RsaPublicKeyComponents { n, e }.verify(parameters, message, found)
            }
            (Check::Curve(curve), DecodingKeyKind::SecretOrDer(point)) => {
                UnparsedPublicKey::new(curve, point).verify(message, found)
            }
            // A key of another family than the algorithm.
            _ => return Err(Error::new()),
        };
        verified.map_err(|_| Error::new())
    }
}

impl JwtVerifier for RingVerifier {
    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}
